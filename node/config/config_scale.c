/* Who makes engines and ends them. */
#include "node/config/config_scale.h"

#include <inttypes.h>
#include <string.h>

#include "index/base/ascii.h"
#include "node/config/config_error_internal.h"

#define NUMBER "{}" /* in scale.worker */

const char *
config_scale_by(const struct config_scale *scale)
{
    return scale->hook.host[0] != '\0'    ? "scale.hook"
           : scale->command[0] != '\0'    ? "scale.command"
           : scale->kubernetes[0] != '\0' ? "scale.kubernetes"
                                          : "";
}

/* Of a name in the API: it goes into a path as it is. */
static bool
is_name(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool low = c >= 'a' && c <= 'z';
        if (!low && !ascii_is_digit(c) && c != '-' && c != '.') {
            return false;
        }
    }
    return s.len != 0 && ascii_lower(s.ptr[0]) != '.';
}

bool
config_scale_kube(const struct config_scale *scale, struct slice *space,
                  struct slice *name)
{
    struct slice text = slice_of(scale->kubernetes);

    *space = SLICE("");
    *name = text;
    if (memchr(text.ptr, '/', text.len) == NULL) {
        return is_name(text);
    }
    *space = slice_take(&text, '/');
    *name = text;
    return is_name(*space) && is_name(*name);
}

void
config_scale_worker(const struct config_scale *scale, uint32_t number,
                    struct buf *out)
{
    const char *at = scale->worker;
    const char *next = strstr(at, NUMBER);

    while (next != NULL) {
        buf_add(out, at, (size_t)(next - at));
        buf_printf(out, "%" PRIu32, number);
        at = next + sizeof(NUMBER) - 1;
        next = strstr(at, NUMBER);
    }
    buf_add_text(out, at);
}

static void
check_kube(const struct config_scale *scale, struct config_errors *errors)
{
    struct config_place place = {.source = "scale.kubernetes"};
    struct config_worker worker;
    struct slice space;
    struct slice name;
    struct buf text;

    if (!config_scale_kube(scale, &space, &name)) {
        config_error(errors, &place,
                     "expected the name of a StatefulSet, or NAMESPACE/NAME");
    }
    place.source = "scale.worker";
    if (strstr(scale->worker, NUMBER) == NULL) {
        config_error(errors, &place,
                     "scale.kubernetes needs it, with " NUMBER
                     " where a pod's number is");
        return;
    }
    buf_init(&text, 4096);
    config_scale_worker(scale, 0, &text);
    if (config_parse_worker(buf_slice(&text), place.source, &worker, errors) ==
            0 &&
        worker.url.host[0] == '\0') {
        config_error(errors, &place, "expected the URL of one worker");
    }
    buf_fini(&text);
}

void
config_scale_check(const struct config *config, struct config_errors *errors)
{
    const struct config_scale *scale = &config->scale;
    bool meshed =
        config->mesh.listen.host[0] != '\0' || config->mesh.join.count != 0;
    uint32_t ways = (uint32_t)(scale->hook.host[0] != '\0') +
                    (uint32_t)(scale->command[0] != '\0') +
                    (uint32_t)(scale->kubernetes[0] != '\0');
    struct config_place place = {.source = "scale.mode"};

    if (scale->kubernetes[0] != '\0') {
        check_kube(scale, errors);
    }
    if (scale->mode != CONFIG_SCALE_ACT) {
        return;
    }
    if (ways != 1) {
        config_error(errors, &place,
                     "act needs one of scale.hook, scale.command and "
                     "scale.kubernetes");
    }
    if (meshed && scale->quorum < 2) {
        config_error(errors, &place,
                     "act in a mesh needs scale.quorum: more than half of "
                     "its nodes");
    }
}
