/*
 * Decisions in their order: which prefixes a worker's rank will hold once it
 * has computed everything that was sent there.
 *
 * The mirror says what a rank holds now. Where requests queue, those before
 * this one will have taken the memory of what was not used for long by the time
 * its turn comes. So for each rank the prompts that were sent there are kept in
 * the order of the decisions, in a tree as large as the rank's cache, which
 * evicts as the engine does. To a request that has to queue no more is promised
 * than the tree still has (token_match.c): what has left it will be gone.
 *
 * It counts only once it is full: until then the rank has room for more than
 * what was decided since this node began, and keeps it.
 *
 * One key in every DECIDED_TOKENS tokens is kept. A key names its whole
 * prefix, so this costs nothing but the last few blocks' precision, and peers
 * are told an eighth of a prompt's keys (hints.h).
 *
 * Role: core. Owns: its tree. Thread: the owner (control); lanes match while
 * online in the qsbr. Limits: bytes_max; what has no room is missing, and the
 * tree's statistics count it. Errors: named outcomes of the tree, -ENOMEM.
 */
#ifndef NODE_DECIDED_H
#define NODE_DECIDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/counter.h"
#include "index/base/qsbr.h"
#include "index/base/role.h"
#include "index/index.h"

#define DECIDED_TOKENS 128U /* from one kept key to the next, or one block */

struct decided;

/* bytes_max: of the tree; depth_max: blocks of a prompt. 0 and *out, -EINVAL
 * when bytes_max is too small for an empty tree, -ENOMEM. qsbr outlives it. */
int decided_new(struct decided **out, size_t bytes_max, uint32_t depth_max,
                struct qsbr *qsbr) MUST_CHECK;

/* No reader may be online. NULL is fine. */
void decided_free(struct decided *decided);

/* Blocks from one kept key to the next, at this size of a block. */
static inline uint32_t
decided_stride(uint32_t block_tokens)
{
    return block_tokens < DECIDED_TOKENS ? DECIDED_TOKENS / block_tokens : 1;
}

/*
 * The rank in this slot of the mirror has a cache of so many blocks of this
 * size, and evicts in this way. Repeated for changes. 0; RADIX_E_FULL: the
 * slot's last owner is still being swept, try later; -ENOMEM.
 */
int decided_open(struct decided *decided, uint32_t slot, uint64_t blocks,
                 uint32_t block_tokens, enum radix_eviction eviction)
    ON_CONTROL MUST_CHECK;

/* The slot has no owner any more. A slot without an owner is fine. */
void decided_close(struct decided *decided, uint32_t slot) ON_CONTROL;

/* Of a prompt's count keys, those that are kept, and `longest`, for
 * decided_add(); out has room for count + 1. Returns how many, 0 if none is
 * kept. */
uint32_t decided_told(const uint64_t *keys, uint32_t count,
                      uint32_t block_tokens, uint64_t longest, uint64_t *out);

/* The kept keys alone, for radix_match(). */
uint32_t decided_keys(const uint64_t *keys, uint32_t count,
                      uint32_t block_tokens, uint64_t *out);

/* A prompt was sent to a slot: its kept keys, and then the one of them that
 * names the longest prefix that a worker held (0: none). The prompt is in its
 * place, and counted at that key. A slot without an owner has no places. */
void decided_add(struct decided *decided, uint32_t slot, const uint64_t *keys,
                 uint32_t count, uint64_t now_us) ON_CONTROL;

/* Evicts, sweeps and frees, at most budget steps. True when there is more. */
bool decided_work(struct decided *decided, uint32_t budget, uint64_t now_us)
    ON_CONTROL;

/* Requests of all nodes that asked for the prefix of a kept key lately, in
 * thousandths (heat.h). Any thread. */
uint32_t decided_heat(const struct decided *decided, uint64_t key);

/* Whether the slot's tree is full: only then what it lacks is doubtful.
 * Any thread. */
bool decided_counts(const struct decided *decided, uint32_t slot);

/* For radix_match() of kept keys, by slot of the mirror; root is
 * DECIDED_ROOT. */
const struct radix *decided_tree(const struct decided *decided);
#define DECIDED_ROOT UINT64_C(1)

#endif
