/* Which model stands behind a name, and a request that asks for it. */
#include "node/route/alias.h"

#include <string.h>

#include "index/base/check.h"
#include "index/index.h"

static uint64_t
sum_of(const struct config_alias *alias)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < alias->targets_count; i++) {
        sum += alias->target[i].weight;
    }
    return sum;
}

/* Whose part of the weights the hash falls into. */
static uint32_t
first_of(const struct config_alias *alias, uint64_t hash)
{
    uint64_t sum = sum_of(alias);
    uint64_t at = (hash >> 32) * sum >> 32;
    uint32_t i = 0;

    CHECK(sum > 0 && at < sum);
    while (at >= alias->target[i].weight) {
        at -= alias->target[i].weight;
        i++;
        CHECK(i < alias->targets_count);
    }
    return i;
}

void
alias_order(const struct config_alias *alias, uint64_t hash,
            uint8_t order[CONFIG_ALIAS_TARGETS_MAX])
{
    /* Names that differ little must not differ little as hashes. */
    uint64_t mixed = key_next(hash, alias->name, strlen(alias->name));
    uint32_t first = first_of(alias, mixed);
    uint32_t count = 0;

    CHECK(alias->targets_count <= CONFIG_ALIAS_TARGETS_MAX);
    order[count++] = (uint8_t)first;
    for (uint32_t i = 0; i < alias->targets_count; i++) {
        if (i != first) {
            order[count++] = (uint8_t)i;
        }
    }
    CHECK(count == alias->targets_count);
}

size_t
alias_body_size(struct slice body, struct alias_place place, struct slice model)
{
    CHECK(place.at <= body.len && place.len <= body.len - place.at);
    return body.len - place.len + model.len;
}

struct slice
alias_body(struct slice body, struct alias_place place, struct slice model,
           char *out)
{
    size_t size = alias_body_size(body, place, model);
    size_t rest = place.at + place.len;

    memcpy(out, body.ptr, place.at);
    memcpy(out + place.at, model.ptr, model.len);
    memcpy(out + place.at + model.len, body.ptr + rest, body.len - rest);
    return (struct slice){.ptr = out, .len = size};
}

uint64_t
alias_session(uint64_t asked, struct slice model)
{
    uint64_t key = key_next(asked, model.ptr, model.len);

    return asked == 0 ? 0 : key | (key == 0);
}
