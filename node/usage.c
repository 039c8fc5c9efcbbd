#include "node/usage.h"

/* The number after the last `name` in tail; 0 when there is none. */
static uint32_t
last_number(struct slice tail, struct slice name)
{
    const char *end = tail.ptr + tail.len;
    const char *found = NULL;
    const char *at = tail.ptr;
    uint64_t number = 0;

    while (at != NULL && at < end) {
        at = memmem(at, (size_t)(end - at), name.ptr, name.len);
        if (at != NULL) {
            at += name.len;
            found = at;
        }
    }
    if (found == NULL) {
        return 0;
    }
    while (found < end && (*found == ':' || *found == ' ')) {
        found++;
    }
    while (found < end && *found >= '0' && *found <= '9') {
        number = number * 10 + (uint64_t)(*found - '0');
        if (number > UINT32_MAX) {
            return 0;
        }
        found++;
    }
    return (uint32_t)number;
}

void
usage_find(struct slice tail, struct usage *usage)
{
    usage->prompt_tokens = last_number(tail, SLICE("\"prompt_tokens\""));
    usage->cached_tokens = last_number(tail, SLICE("\"cached_tokens\""));
}
