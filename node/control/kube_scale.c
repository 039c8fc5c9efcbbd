/* The scale sub-resource of a StatefulSet. */
#include "node/control/kube_scale.h"

#include <string.h>

#include "index/base/arena.h"
#include "node/text/json_out.h"
#include "node/text/json_tree.h"

#define TREE_BYTES_MAX ((size_t)256 << 10)

static bool
copy_text(const struct json_value *value, char out[KUBE_SCALE_NAME_MAX])
{
    struct slice text = value != NULL && value->kind == JSON_STRING
                            ? json_tree_slice(value)
                            : SLICE("");

    if (text.len == 0 || text.len >= KUBE_SCALE_NAME_MAX) {
        return false;
    }
    memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
    return true;
}

/* Absent is 0, as the API has it. */
static bool
read_replicas(const struct json_value *root, uint32_t *out)
{
    const struct json_value *value =
        json_tree_member(json_tree_member(root, "spec"), "replicas");

    if (value != NULL && (value->kind != JSON_INT || value->as.integer < 0 ||
                          value->as.integer > INT32_MAX)) {
        return false;
    }
    *out = value != NULL ? (uint32_t)value->as.integer : 0;
    return json_tree_member(root, "spec") != NULL;
}

bool
kube_scale_read(struct slice json, struct kube_scale *scale)
{
    struct json_tree_fault fault;
    struct json_value root;
    struct arena arena;

    arena_init(&arena, TREE_BYTES_MAX);
    bool good = json_tree_read(json, &arena, &root, &fault);
    const struct json_value *meta =
        good ? json_tree_member(&root, "metadata") : NULL;
    good =
        good && copy_text(json_tree_member(meta, "namespace"), scale->space) &&
        copy_text(json_tree_member(meta, "name"), scale->name) &&
        copy_text(json_tree_member(meta, "resourceVersion"), scale->version) &&
        read_replicas(&root, &scale->replicas);
    arena_fini(&arena);
    return good;
}

enum kube_scale_do
kube_scale_next(struct kube_scale *scale, bool provision, uint32_t number)
{
    uint32_t with = number + 1;

    if (provision ? scale->replicas >= with : scale->replicas <= number) {
        return KUBE_SCALE_DONE;
    }
    if (!provision && scale->replicas > with) {
        return KUBE_SCALE_MORE;
    }
    scale->replicas = provision ? with : number;
    return KUBE_SCALE_SET;
}

void
kube_scale_put(const struct kube_scale *scale, struct buf *out)
{
    struct json_out json;

    json_out_init(&json, out);
    json_out_object_begin(&json);
    json_out_put_text(&json, "apiVersion", "autoscaling/v1");
    json_out_put_text(&json, "kind", "Scale");
    json_out_key(&json, "metadata");
    json_out_object_begin(&json);
    json_out_put_text(&json, "name", scale->name);
    json_out_put_text(&json, "namespace", scale->space);
    json_out_put_text(&json, "resourceVersion", scale->version);
    json_out_object_end(&json);
    json_out_key(&json, "spec");
    json_out_object_begin(&json);
    json_out_put_uint(&json, "replicas", scale->replicas);
    json_out_object_end(&json);
    json_out_object_end(&json);
}
