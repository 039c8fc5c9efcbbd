/* Token counts at the end of an engine's answer. */
#include "node/text/usage.h"

#include "index/base/check.h"

/* Where the last `name` in tail ends; NULL when there is none. */
static const char *
find_last(struct slice tail, struct slice name)
{
    const char *end = tail.ptr + tail.len;

    for (const char *at = end; at != tail.ptr;) {
        at = memrchr(tail.ptr, '"', (size_t)(at - tail.ptr));
        if (at == NULL) {
            return NULL;
        }
        if ((size_t)(end - at) >= name.len &&
            memcmp(at, name.ptr, name.len) == 0) {
            return at + name.len;
        }
    }
    return NULL;
}

/* The number after the last `name` in tail: true and *out. */
static bool
last_number(struct slice tail, struct slice name, uint32_t *out)
{
    const char *end = tail.ptr + tail.len;
    const char *at = tail.len != 0 ? find_last(tail, name) : NULL;
    uint64_t number = 0;

    *out = 0;
    if (at == NULL) {
        return false;
    }
    CHECK(at > tail.ptr && at <= end);
    while (at < end && (*at == ':' || *at == ' ')) {
        at++;
    }
    if (at == end || *at < '0' || *at > '9') {
        return false; /* null, say */
    }
    while (at < end && *at >= '0' && *at <= '9') {
        number = number * 10 + (uint64_t)(*at - '0');
        if (number > UINT32_MAX) {
            return false;
        }
        at++;
    }
    *out = (uint32_t)number;
    return true;
}

/* llama.cpp's account of the cached and the computed tokens of the prompt,
 * which its streams have without being asked. */
static void
find_timings(struct slice tail, struct usage *usage)
{
    uint32_t cached;
    uint32_t computed;

    if (last_number(tail, SLICE("\"cache_n\""), &cached) &&
        last_number(tail, SLICE("\"prompt_n\""), &computed) &&
        computed <= UINT32_MAX - cached) {
        *usage = (struct usage){.prompt_tokens = cached + computed,
                                .cached_tokens = cached,
                                .cached_known = true};
    }
}

void
usage_find(struct slice tail, struct usage *usage)
{
    bool found =
        last_number(tail, SLICE("\"prompt_tokens\""), &usage->prompt_tokens);

    usage->cached_known =
        last_number(tail, SLICE("\"cached_tokens\""), &usage->cached_tokens);
    if (!found || !usage->cached_known) {
        find_timings(tail, usage);
    }
}
