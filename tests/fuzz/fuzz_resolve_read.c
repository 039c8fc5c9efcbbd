/* Any bytes as a DNS answer: read inside their bounds, and what was found goes
 * into a discovery that stays sound. The first byte chooses the record type. */
#include <string.h>

#include "node/peers/resolve_read_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
take(enum resolve_type type, const struct resolve_found *found)
{
    static struct discover d;
    struct discover_config config = discover_config_default();
    struct discover_out out;
    const char *text = type == RESOLVE_SRV ? "srv:_a._tcp.b" : "dns:a:1";
    struct discover_join join;
    const char *reason;

    CHECK(discover_parse(slice_of(text), &join) == NULL);
    discover_init(&d, &config, 0, 1);
    CHECK(discover_add(&d, &join, 0) == 0);
    discover_tick(&d, 0);
    CHECK(discover_next_out(&d, &out));
    struct discover_answer answer = {.ticket = out.ticket,
                                     .outcome = DISCOVER_FOUND,
                                     .ips = found->ips,
                                     .ips_count = found->ips_count,
                                     .targets = found->targets,
                                     .targets_count = found->targets_count};
    discover_answered(&d, &answer, 0);
    while (discover_next_out(&d, &out)) {
        CHECK(out.kind != DISCOVER_OUT_HINT ||
              discover_parse(slice_of(out.address), &join) == NULL);
    }
    CHECK(discover_check(&d, &reason));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct resolve_found found;

    if (size == 0) {
        return 0;
    }
    enum resolve_type type = (enum resolve_type)(data[0] % 3);
    found.ips_count = 0;
    found.targets_count = 0;
    resolve_read(data + 1, size - 1, type, &found);
    CHECK(found.ips_count <= DISCOVER_IPS_MAX);
    CHECK(found.targets_count <= DISCOVER_TARGETS_MAX);
    CHECK(type == RESOLVE_SRV ? found.ips_count == 0
                              : found.targets_count == 0);
    for (size_t i = 0; i < found.targets_count; i++) {
        CHECK(memchr(found.targets[i].name, '\0', DISCOVER_NAME_MAX) != NULL);
    }
    take(type, &found);
    return 0;
}
