/*
 * The counters of one lane. Each lane writes its own block; the control thread
 * adds them up on request; nothing is shared while requests run.
 *
 * Role: core. Owns: nothing. Thread: counters by their lane, reading by any.
 */
#ifndef NODE_METRICS_H
#define NODE_METRICS_H

#include <stdint.h>

#include "index/base/counter.h"
#include "node/base/histogram.h"
#include "node/elect/elect.h"

/* X(name, help): exported as kvasir_NAME_total. */
#define METRICS_LANE(X)                                                        \
    X(connections, "Client connections accepted")                              \
    X(connections_refused, "Client connections over limits.connections_max")   \
    X(connections_over_share,                                                  \
      "Client connections over their address's share of these")                \
    X(connections_reserved,                                                    \
      "Client connections that only /health and /ready answer")                \
    X(accept_failures, "Times that accepting failed (no descriptors, ...)")    \
    X(requests, "Requests read whole; probes are none")                        \
    X(probes, "Questions for /health and /ready")                              \
    X(requests_local, "Requests answered by the node itself")                  \
    X(requests_bad, "Requests refused as malformed (4xx of our own)")          \
    X(requests_too_large, "Requests over a size limit")                        \
    X(requests_overload, "Requests over inflight or buffer limits (503)")      \
    X(requests_over_share, "Requests over the bytes of their address (429)")   \
    X(tls_failed, "Client connections over which TLS failed")                  \
    X(requests_unauthorized, "Requests without a known key (401)")             \
    X(cors_refused, "Browsers' questions for pages that may not (403)")        \
    X(tokens_verified, "Tokens whose signature was looked at")                 \
    X(tokens_unknown_key, "Tokens by a key that is not in the set")            \
    X(requests_no_worker, "Requests for which no worker was eligible (503)")   \
    X(requests_too_long, "Requests longer than any worker takes (400)")        \
    X(requests_residency,                                                      \
      "Requests that no worker within their tenant's residency serves (403)")  \
    X(requests_queued, "Requests that waited for a worker with room")          \
    X(moments_waited, "Requests that let peers decide before them")            \
    X(requests_queue_full, "Requests that a full queue did not keep (503)")    \
    X(requests_queue_late, "Requests that waited too long for room (503)")     \
    X(requests_no_model, "Requests for a model no worker serves (404)")        \
    X(forwarded, "Requests sent to a worker")                                  \
    X(mode_affinity, "Requests placed where their prefix is")                  \
    X(mode_balance, "Requests placed where the load is least")                 \
    X(mode_policy, "Requests placed by another policy")                        \
    X(mode_session, "Requests placed where their session is")                  \
    X(sessions_new, "Requests whose session no worker had")                    \
    X(sessions_moved, "Sessions whose worker took no more: another has them")  \
    X(sessions_yielded, "Requests placed elsewhere than their session")        \
    X(imbalanced, "Elections that found the load imbalanced")                  \
    X(placed_prefix_hash, "New prefixes placed first by hash")                 \
    X(placed_overflow, "New prefixes placed next by hash, for the load")       \
    X(placed_fallback, "New prefixes placed by chance: no hash had room")      \
    X(retries, "Attempts after the first")                                     \
    X(pool_short, "Requests that suit engines of a short length")              \
    X(pool_long, "Requests that suit engines of the greatest length")          \
    X(pool_spilled, "Of these, placed at engines of the other length")         \
    X(retries_stale, "Kept connections found dead and replaced")               \
    X(model_fallbacks, "Requests given to another model of their alias")       \
    X(content_too_hard,                                                        \
      "Patterns of content.file that took too many steps of a request")        \
    X(attempts_connect, "Attempts that failed to connect")                     \
    X(attempts_timeout, "Attempts that timed out")                             \
    X(attempts_closed, "Attempts whose connection closed without an answer")   \
    X(attempts_bad, "Attempts answered with something that is not HTTP")       \
    X(attempts_status, "Attempts answered with a status that is tried again")  \
    X(all_failed, "Requests whose attempts all failed (502)")                  \
    X(all_busy, "Requests that workers refused for now (429 or 503)")          \
    X(severed, "Answers severed after their first byte")                       \
    X(resumed, "Answers that broke off and went on at another worker")         \
    X(resumed_torn, "... whose other worker did not go on where they ended")   \
    X(finished_here, "Answers that broke off behind their last word, and got " \
                     "their end from this node")                               \
    X(forms_ahead, "Forms that went to a worker while they came")              \
    X(translated, "Requests of other APIs that engines got as chats")          \
    X(counts_local, "Counts of Messages' tokens that this node made")          \
    X(answer_cache_hits, "Requests answered from the answer cache")            \
    X(answer_cache_misses, "Requests whose answer it did not have")            \
    X(answer_cache_waits, "Requests that waited for the first of their kind")  \
    X(answer_cache_unkept, "First ones whose answer was not kept: no whole "   \
                           "one of 200, or too large")                         \
    X(answer_cache_bypass_path,                                                \
      "Requests that pass it by: no path of generations or embeddings")        \
    X(answer_cache_bypass_asked, "... their client said no-store")             \
    X(answer_cache_bypass_sampled,                                             \
      "... no temperature 0, nor a seed that counts")                          \
    X(answer_cache_bypass_state,                                               \
      "... their answer depends on what is kept or found elsewhere")           \
    X(answer_cache_bypass_media, "... they have pictures, sounds or files")    \
    X(answer_cache_bypass_shape, "... no prompt, or a key twice")              \
    X(keep_alives,                                                             \
      "Comments to clients that waited for the first of a stream")             \
    X(split, "Requests whose prompt a prefill worker was to compute")          \
    X(split_short, "... not split: too little was to be computed")             \
    X(split_form, "... not split: they ask for what cannot be split")          \
    X(split_alone, "... not split: no pair of workers was free")               \
    X(split_prefill_failed, "Split requests whose prefill worker failed")      \
    X(split_params_missing, "... told no kv_transfer_params")                  \
    X(split_params_refused, "... whose decode worker did not take these")      \
    X(split_decode_failed, "... whose decode worker failed")                   \
    X(cut_off, "Requests cut off because draining took too long")              \
    X(cancelled, "Requests whose client went away")                            \
    X(timeouts_client, "Client connections closed for being too slow")         \
    X(answers_2xx, "Workers' answers passed on, by class")                     \
    X(answers_4xx, "Workers' answers passed on, by class")                     \
    X(answers_5xx, "Workers' answers passed on, by class")                     \
    X(bytes_in, "Request body bytes")                                          \
    X(bytes_out, "Answer body bytes passed on")                                \
    X(blocks, "Prompt blocks looked up")                                       \
    X(blocks_matched, "Prompt blocks the chosen worker was expected to hold")  \
    X(prompt_tokens, "Prompt tokens, as engines reported them")                \
    X(cached_tokens, "Prompt tokens from cache, as engines reported them")     \
    X(created_cache_tokens,                                                    \
      "Prompt tokens that engines reported to have written to their caches")   \
    X(completion_tokens, "Tokens of answers, as engines reported them")        \
    X(exact, "Requests looked up in workers' mirrors, by their tokens")        \
    X(inexact, "Requests looked up by text because their tokens were unknown") \
    X(tokens_matched, "Prompt tokens the chosen worker's mirror promised")     \
    X(tokens_asked, "Prompts that an engine was asked to tokenise")            \
    X(tokens_late, "Requests that went on without waiting longer for that")    \
    X(tokens_failed, "Prompts that an engine did not tokenise")                \
    X(tokens_known, "Prompts whose tokens were remembered")                    \
    X(tokens_known_part, "Prompts with a remembered earlier turn")             \
    X(tokens_refused, "Prompts that an engine refused to tokenise")            \
    X(tokens_unable, "Prompts whose engine turned out not to tokenise")        \
    X(tokens_timed_out, "Prompts not tokenised within tokens.timeout")         \
    X(tokens_too_large, "Prompts whose tokens were too large an answer")       \
    X(tokens_busy, "Prompts not asked about: tokens.open_max, or their bytes") \
    X(tokens_evicted, "Remembered turns given up for others")                  \
    X(tokens_unkept, "Turns not remembered, for want of memory")               \
    X(tokens_local, "Prompts tokenised by this node")                          \
    X(tokens_local_refused, "Prompts that their model's files did not do for") \
    X(tokens_local_busy,                                                       \
      "Prompts not tokenised because of tokens.open_max, or "                  \
      "of limits.buffered_bytes_max")                                          \
    X(tokens_local_wrong, "Prompts whose tokens an engine counted otherwise")  \
    X(tokens_wrong, "Remembered turns that promised more than there was")      \
    X(spans_truncated, "Prompts with more pieces than limits.spans_max")       \
    X(loop_turns, "Turns of the lanes' event loops")                           \
    X(loop_ticks, "Turns that were due to the lane's tick")                    \
    X(facts_lost, "Facts for the control thread lost to a full queue")         \
    X(upstream_opened, "Connections opened to workers")                        \
    X(upstream_resumed, "Of these, by https: those that resumed a session")    \
    X(upstream_reused, "Requests sent over a kept connection")

/* X(name, help): levels of a lane, summed over lanes. */
#define METRICS_LEVELS(X)                                          \
    X(tokens_open, "Prompts that engines tokenise now")            \
    X(tokens_connections, "Kept connections for that, unused now") \
    X(tokens_cache_bytes, "Memory of tokenised conversations")     \
    X(tokens_cache_turns, "Turns of conversations that are remembered")

#define METRICS_MEMBER(name, help) struct counter name;

#define METRICS_MODES (ELECT_SESSION + 1U) /* enum elect_mode */

/* How much of its prompt a request's worker was expected to hold. */
enum metrics_overlap {
    METRICS_OVERLAP_NONE,
    METRICS_OVERLAP_PART,
    METRICS_OVERLAP_MOST, /* half of it, or more */
    METRICS_OVERLAPS,
};

struct metrics_lane {
    METRICS_LANE(METRICS_MEMBER)
    METRICS_LEVELS(METRICS_MEMBER)
    struct histogram route;  /* request whole to worker elected */
    struct histogram tokens; /* asking an engine for tokens to its answer */
    struct histogram tokens_made; /* tokenising by this node */
    struct histogram first_byte;  /* request whole to answer's first byte */
    /* ... to the first of a stream's body, by enum elect_mode */
    struct histogram first_token[METRICS_MODES][METRICS_OVERLAPS];
    struct histogram step;     /* between two tokens, a stream's mean */
    struct histogram prefill;  /* of split ones: prefill half sent to done */
    struct histogram duration; /* request whole to answer's end */
};

/* How much that is of a prompt: both of blocks, or of tokens. */
enum metrics_overlap metrics_overlap_of(uint32_t held, uint32_t total);

/* Adds one lane's numbers to a total that nobody shares. */
void metrics_merge(struct metrics_lane *total, const struct metrics_lane *lane);

/* All of it as Prometheus text. */
void metrics_print(const struct metrics_lane *total, struct buf *out);

#endif
