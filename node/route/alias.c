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
alias_body_size(struct slice body, const struct alias_edit *edit)
{
    struct alias_place place = edit->place;

    CHECK(place.at <= body.len && place.len <= body.len - place.at);
    return body.len - place.len + edit->model.len + edit->members.len;
}

/* Bytes in front of a body's first member; 0 without members to add. */
static size_t
opening(struct slice body, const struct alias_edit *edit)
{
    const char *brace =
        edit->members.len != 0 ? memchr(body.ptr, '{', body.len) : NULL;

    CHECK(edit->members.len == 0 || brace != NULL);
    return brace != NULL ? (size_t)(brace - body.ptr) + 1 : 0;
}

static char *
put(char *out, struct slice bytes)
{
    if (bytes.len != 0) {
        memcpy(out, bytes.ptr, bytes.len);
    }
    return out + bytes.len;
}

struct slice
alias_body(struct slice body, const struct alias_edit *edit, char *out)
{
    size_t size = alias_body_size(body, edit);
    size_t rest = edit->place.at + edit->place.len;
    size_t head = opening(body, edit);
    char *to = put(out, (struct slice){body.ptr, head});

    CHECK(head <= edit->place.at);
    to = put(to, edit->members);
    to = put(to, (struct slice){body.ptr + head, edit->place.at - head});
    to = put(to, edit->model);
    to = put(to, (struct slice){body.ptr + rest, body.len - rest});
    CHECK(to == out + size);
    return (struct slice){.ptr = out, .len = size};
}

uint64_t
alias_session(uint64_t asked, struct slice model)
{
    uint64_t key = key_next(asked, model.ptr, model.len);

    return asked == 0 ? 0 : key | (key == 0);
}
