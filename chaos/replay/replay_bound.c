/* Belady's rule over all blocks of a load. */
#include "chaos/replay/replay_bound.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "index/index.h"

#define NEVER UINT32_MAX
#define AHEAD 16U

/* One access for each full block of each prompt with its answer, in order. */
struct accesses {
    uint64_t count;
    uint64_t *key;
    uint32_t *next; /* access of the same block, or NEVER */
    uint8_t *kept;  /* by access: the block is in the cache until then */
    uint32_t *heap; /* of accesses whose blocks are kept: the last first */
    uint64_t heap_count;
    uint64_t kept_count;
};

/* The last token of an answer is computed by nobody. */
static uint32_t
blocks_of(const struct replay_request *r, uint32_t block_tokens)
{
    return (r->prompt_tokens + r->output_tokens - 1) / block_tokens;
}

static int
open_accesses(struct accesses *a, const struct replay_load *load,
              uint32_t block_tokens)
{
    *a = (struct accesses){.count = 0};
    for (uint32_t i = 0; i < load->count; i++) {
        a->count += blocks_of(&load->requests[i], block_tokens);
    }
    size_t count = a->count < NEVER ? (size_t)a->count + 1 : 1;
    a->key = calloc(count, sizeof(*a->key));
    a->next = calloc(count, sizeof(*a->next));
    a->kept = calloc(count, sizeof(*a->kept));
    a->heap = calloc(count, sizeof(*a->heap));
    return a->count >= NEVER || a->key == NULL || a->next == NULL ||
                   a->kept == NULL || a->heap == NULL
               ? -ENOMEM
               : 0;
}

static void
close_accesses(struct accesses *a)
{
    free(a->key);
    free(a->next);
    free(a->kept);
    free(a->heap);
}

static int
name_blocks(struct accesses *a, const struct replay_load *load,
            uint32_t block_tokens)
{
    uint32_t *tokens =
        malloc(((size_t)replay_load_longest(load) + 1) * sizeof(*tokens));
    uint64_t at = 0;

    if (tokens == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < load->count; i++) {
        const struct replay_request *r = &load->requests[i];
        struct replay_run answer = {.text = r->answer,
                                    .tokens = r->output_tokens};
        uint32_t blocks = blocks_of(r, block_tokens);
        replay_load_tokens(load, r, tokens);
        replay_run_tokens(&answer, tokens + r->prompt_tokens);
        (void)key_chain(0, tokens, blocks, block_tokens * sizeof(*tokens),
                        a->key + at);
        at += blocks;
    }
    free(tokens);
    CHECK(at == a->count);
    return 0;
}

/* From the end: where each block comes next. A table of keys, a quarter to half
 * full, whose places are fetched before they are looked at. */
static int
find_next(struct accesses *a)
{
    uint64_t mask = 15;

    while (mask < a->count * 2) {
        mask = mask * 2 + 1;
    }
    uint32_t *table =
        calloc(mask + 1, sizeof(*table)); /* access + 1; 0: free */
    if (table == NULL) {
        return -ENOMEM;
    }
    for (uint64_t i = a->count; i-- > 0;) {
        uint64_t at = rng_mix(a->key[i]) & mask;
        if (i >= AHEAD) {
            __builtin_prefetch(&table[rng_mix(a->key[i - AHEAD]) & mask], 1);
        }
        while (table[at] != 0 && a->key[table[at] - 1] != a->key[i]) {
            at = (at + 1) & mask;
        }
        a->next[i] = table[at] == 0 ? NEVER : table[at] - 1;
        table[at] = (uint32_t)i + 1;
    }
    free(table);
    return 0;
}

/* Of the full blocks of prompts, in permille, those that were in an earlier
 * prompt. From the end on an access says in `kept` whether a prompt has its
 * block there or later; of each block all prompts but the first have it from an
 * earlier one. */
static uint32_t
sharing(struct accesses *a, const struct replay_load *load,
        uint32_t block_tokens)
{
    uint64_t full = 0;
    uint64_t known = 0;
    uint64_t at = a->count;

    for (uint32_t i = load->count; i-- > 0;) {
        const struct replay_request *r = &load->requests[i];
        uint32_t prompt = r->prompt_tokens / block_tokens;
        full += prompt;
        for (uint32_t b = blocks_of(r, block_tokens); b-- > 0;) {
            uint32_t next = a->next[--at];
            bool later = next != NEVER && a->kept[next] != 0;
            known += later && b < prompt;
            a->kept[at] = later || b < prompt;
        }
    }
    CHECK(at == 0 && known <= full);
    memset(a->kept, 0, a->count);
    return known == 0 ? 0 : (uint32_t)(known * 1000 / full);
}

static void
push(struct accesses *a, uint32_t value)
{
    uint64_t at = a->heap_count++;

    CHECK_SLOW(a->heap_count <= a->count);
    for (; at > 0 && a->heap[(at - 1) / 2] < value; at = (at - 1) / 2) {
        a->heap[at] = a->heap[(at - 1) / 2];
    }
    a->heap[at] = value;
}

static void
pop(struct accesses *a)
{
    uint32_t value = a->heap[--a->heap_count];
    uint64_t at = 0;

    for (;;) {
        uint64_t child = 2 * at + 1;
        if (child >= a->heap_count) {
            break;
        }
        child +=
            child + 1 < a->heap_count && a->heap[child + 1] > a->heap[child];
        if (a->heap[child] <= value) {
            break;
        }
        a->heap[at] = a->heap[child];
        at = child;
    }
    a->heap[at] = value;
}

/* The block of an access goes into the cache, if it is wanted sooner than
 * another. What is in the heap and was found meanwhile lies below all that is
 * kept, so the top is always kept. */
static void
keep(struct accesses *a, uint64_t i, uint64_t blocks)
{
    uint32_t next = a->next[i];

    if (next == NEVER) {
        return;
    }
    if (a->kept_count == blocks) {
        if (blocks == 0 || a->heap[0] < next) {
            return;
        }
        CHECK_SLOW(a->kept[a->heap[0]]);
        a->kept[a->heap[0]] = 0;
        a->kept_count--;
        pop(a);
    }
    a->kept[next] = 1;
    a->kept_count++;
    push(a, next);
}

/* A hole ends what is found of a prompt. */
static uint64_t
found_tokens(struct accesses *a, const struct replay_load *load,
             uint32_t block_tokens, uint64_t blocks)
{
    uint64_t found = 0;
    uint64_t at = 0;

    for (uint32_t i = 0; i < load->count; i++) {
        const struct replay_request *r = &load->requests[i];
        uint32_t usable = (r->prompt_tokens - 1) / block_tokens;
        bool whole = true;
        for (uint32_t b = 0; b < blocks_of(r, block_tokens); b++, at++) {
            whole = whole && a->kept[at] != 0;
            found += whole && b < usable ? block_tokens : 0;
            a->kept_count -= a->kept[at];
            keep(a, at, blocks);
        }
    }
    return found;
}

int
replay_bound(const struct replay_load *load, uint32_t block_tokens,
             uint64_t blocks, struct replay_bounds *bounds)
{
    struct accesses a;
    uint64_t prompts = 0;
    int error = open_accesses(&a, load, block_tokens);

    CHECK(block_tokens > 0);
    for (uint32_t i = 0; i < load->count; i++) {
        prompts += load->requests[i].prompt_tokens;
    }
    if (error == 0) {
        error = name_blocks(&a, load, block_tokens);
    }
    if (error == 0) {
        error = find_next(&a);
    }
    *bounds = (struct replay_bounds){.share = 0};
    if (error == 0 && prompts > 0) {
        bounds->sharing_permille = sharing(&a, load, block_tokens);
        bounds->share =
            (uint32_t)(found_tokens(&a, load, block_tokens, blocks) * 10000 /
                       prompts);
    }
    close_accesses(&a);
    return error;
}
