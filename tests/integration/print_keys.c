/*
 * Prints the keys of a prompt's blocks, as a sidecar would have to name them:
 *   print_keys BLOCK_TOKENS ID...
 * one line of 16 hex digits for each full block, without adapter and salt.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/index.h"

int
main(int argc, char **argv)
{
    uint32_t size = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    uint32_t count = argc > 2 ? (uint32_t)argc - 2 : 0;
    uint32_t *ids = calloc(count + 1, sizeof(*ids));
    uint64_t key = key_token_root(SLICE(""), SLICE(""));

    if (size == 0 || ids == NULL) {
        return 2;
    }
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = (uint32_t)strtoul(argv[i + 2], NULL, 10);
    }
    for (uint32_t i = 0; i + size <= count; i += size) {
        key = key_next(key, ids + i, size * sizeof(*ids));
        printf("%016" PRIx64 "\n", key);
    }
    free(ids);
    return 0;
}
