/* Labels of islands as numbers. */
#include "mesh/island_path.h"

#include <string.h>

#include "index/index.h"

struct island_path
island_path_of(struct slice label)
{
    struct island_path path = {{0}};
    size_t len = 0;

    for (uint32_t i = 0; i < ISLAND_PARTS && len < label.len; i++) {
        const char *from = label.ptr + len + (i > 0);
        const char *slash = memchr(from, '/', label.len - len - (i > 0));
        len = slash != NULL && i + 1 < ISLAND_PARTS
                  ? (size_t)(slash - label.ptr)
                  : label.len;
        path.part[i] = key_digest((struct slice){label.ptr, len}) | 1;
    }
    return path;
}

uint32_t
island_path_shared(const struct island_path *a, const struct island_path *b)
{
    uint32_t shared = 0;

    while (shared < ISLAND_PARTS && a->part[shared] != 0 &&
           a->part[shared] == b->part[shared]) {
        shared++;
    }
    return shared;
}

uint64_t
island_path_apart(const struct island_path *here,
                  const struct island_path *there)
{
    uint32_t shared = island_path_shared(here, there);

    if (shared == ISLAND_PARTS || here->part[shared] == 0) {
        return 0;
    }
    return there->part[shared];
}
