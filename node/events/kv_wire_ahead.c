/*
 * A look at the hashes that come next. No parsing: whatever begins like the
 * hashes of the last event is taken for one, which tokens seldom do.
 */
#include <string.h>

#include "node/events/kv_wire_event_internal.h"

uint32_t
kv_hashes_ahead(uint8_t lead, const uint8_t **at, const uint8_t *stop,
                const uint8_t *end, uint64_t *hashes, uint32_t max)
{
    uint32_t count = 0;

    while (count < max && *at < stop) {
        struct token token;
        const uint8_t *found = memchr(*at, lead, (size_t)(stop - *at));
        if (found == NULL) {
            *at = stop;
            break;
        }
        const uint8_t *next = token_read(found, end, &token);
        if (next != NULL && kv_fold(&token, &hashes[count])) {
            count++;
            *at = next;
        } else {
            *at = found + 1;
        }
    }
    return count;
}
