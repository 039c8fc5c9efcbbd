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
#include "node/view/metrics_ends.h"

/* ONE(name, help): kvasir_NAME_total. FAMILY(name, label, help): the same, with
 * its values below: OF(value, member, meaning). How requests end is below. */
#define METRICS_LANE(ONE, FAMILY, OF)                                          \
    ONE(connections, "Client connections accepted")                            \
    FAMILY(connections_refused, "reason", "Client connections closed at once") \
    OF("max", connections_refused, "over limits.connections_max")              \
    OF("share", connections_over_share, "over their address's share of it")    \
    ONE(connections_reserved,                                                  \
        "Client connections that only /health and /ready answer")              \
    ONE(accept_failures, "Times that accepting failed (no descriptors, ...)")  \
    ONE(tls_failed, "Client connections over which TLS failed")                \
    ONE(requests_read, "Requests read whole; probes are none")                 \
    ONE(probes, "Questions for /health and /ready")                            \
    ONE(jwt_verified, "Tokens whose signature was looked at")                  \
    ONE(jwt_unknown_key, "Tokens by a key that is not in the set")             \
    ONE(requests_queued, "Requests that waited for a worker with room")        \
    ONE(moments_waited, "Requests that let peers decide before them")          \
    FAMILY(placed, "mode",                                                     \
           "Requests that a worker answered, by why it was chosen")            \
    OF("affinity", mode_affinity, "their prefix is there")                     \
    OF("balance", mode_balance, "the load is least there")                     \
    OF("policy", mode_policy, "another policy says so")                        \
    OF("session", mode_session, "their session is there")                      \
    FAMILY(sessions, "outcome",                                                \
           "Requests of sessions that did not go where their session was")     \
    OF("new", sessions_new, "no worker had it")                                \
    OF("moved", sessions_moved, "its worker took no more")                     \
    OF("yielded", sessions_yielded, "the load outweighed it")                  \
    ONE(imbalanced, "Elections that found the load imbalanced")                \
    FAMILY(new_prefixes, "by", "New prefixes placed")                          \
    OF("hash", placed_prefix_hash, "first by hash")                            \
    OF("overflow", placed_overflow, "next by hash, for the load")              \
    OF("chance", placed_fallback, "no hash had room")                          \
    ONE(retries, "Attempts after the first")                                   \
    FAMILY(pool_requests, "pool", "Requests by the engines that they suit")    \
    OF("short", pool_short, "those of a short length")                         \
    OF("long", pool_long, "those of the greatest length")                      \
    ONE(pool_spilled, "Of these, placed at engines of the other length")       \
    ONE(model_fallbacks, "Requests given to another model of their alias")     \
    ONE(content_too_hard,                                                      \
        "Patterns of content.file that took too many steps of a request")      \
    FAMILY(attempts_failed, "reason", "Attempts that failed")                  \
    OF("connect", attempts_connect, "no connection, or no memory here")        \
    OF("timeout", attempts_timeout, "too late")                                \
    OF("closed", attempts_closed, "closed without an answer")                  \
    OF("bad", attempts_bad, "the answer is not HTTP")                          \
    OF("status", attempts_status, "a status that is tried again")              \
    ONE(resumed, "Answers that broke off and went on at another worker")       \
    ONE(resumed_torn, "... whose other worker did not go on where they ended") \
    ONE(finished_here, "Answers that broke off behind their last word, and "   \
                       "got their end from "                                   \
                       "this node")                                            \
    ONE(forms_ahead, "Forms that went to a worker while they came")            \
    ONE(translated, "Requests of other APIs that engines got as chats")        \
    ONE(counts_local, "Counts of Messages' tokens that this node made")        \
    FAMILY(answer_cache_lookups, "result",                                     \
           "Requests that might be answered without an engine")                \
    OF("hit", answer_cache_hits, "they were")                                  \
    OF("miss", answer_cache_misses, "no answer was there")                     \
    ONE(answer_cache_waits,                                                    \
        "Requests that waited for the first of their kind")                    \
    ONE(answer_cache_unkept, "First ones whose answer was not kept: no whole " \
                             "one of 200, or too large")                       \
    FAMILY(answer_cache_shared, "result", "Questions to answer_cache.redis")   \
    OF("hit", answer_cache_shared_hits, "it had the answer")                   \
    OF("miss", answer_cache_shared_misses, "it had none that still holds")     \
    OF("bad", answer_cache_shared_bad,                                         \
       "what it had was damaged, or not sealed by the nodes")                  \
    OF("failed", answer_cache_shared_failed,                                   \
       "it refused, did not answer in time, or went away")                     \
    OF("away", answer_cache_shared_away,                                       \
       "not asked: it was away, or had too much to do")                        \
    ONE(answer_cache_shared_sent, "Answers that answer_cache.redis was sent")  \
    ONE(answer_cache_shared_unsent,                                            \
        "... that it was not: it was away, or had too much to do")             \
    FAMILY(answer_cache_shared_refused, "reason",                              \
           "... that it was sent, and refused")                                \
    OF("full", answer_cache_shared_full, "it has no memory left")              \
    OF("read_only", answer_cache_shared_read_only, "it is a replica")          \
    OF("password", answer_cache_shared_password, "it wants another one")       \
    OF("rights", answer_cache_shared_rights, "its user may not")               \
    OF("other", answer_cache_shared_refused_other,                             \
       "anything else; the log has what it said")                              \
    FAMILY(answer_cache_bypassed, "reason", "Requests that pass it by")        \
    OF("path", answer_cache_bypass_path,                                       \
       "no path of generations or embeddings")                                 \
    OF("asked", answer_cache_bypass_asked, "their client said no-store")       \
    OF("sampled", answer_cache_bypass_sampled,                                 \
       "no temperature 0, nor a seed that counts")                             \
    OF("state", answer_cache_bypass_state,                                     \
       "their answer depends on what is kept or found elsewhere")              \
    OF("media", answer_cache_bypass_media, "pictures, sounds or files")        \
    OF("shape", answer_cache_bypass_shape, "no prompt, or a key twice")        \
    ONE(keep_alives,                                                           \
        "Comments to clients that waited for the first of a stream")           \
    ONE(split, "Requests whose prompt a prefill worker was to compute")        \
    FAMILY(split_skipped, "reason", "Requests that were not split")            \
    OF("short", split_short, "too little was to be computed")                  \
    OF("form", split_form, "they ask for what cannot be split")                \
    OF("alone", split_alone, "no pair of workers was free")                    \
    FAMILY(split_failed, "reason", "Split requests of which a half failed")    \
    OF("prefill", split_prefill_failed, "the prefill worker did")              \
    OF("params_missing", split_params_missing,                                 \
       "it told no kv_transfer_params")                                        \
    OF("params_refused", split_params_refused,                                 \
       "the decode worker did not take these")                                 \
    OF("decode", split_decode_failed, "the decode worker did")                 \
    ONE(extproc_connections, "Connections of gateways accepted")               \
    ONE(extproc_streams, "Requests that gateways asked about")                 \
    ONE(extproc_picked, "Of these, those that were told a worker")             \
    ONE(extproc_answered, "... and those that this node answered, or refused") \
    ONE(extproc_elsewhere,                                                     \
        "... and those told a worker that another one answered")               \
    ONE(extproc_faults, "Connections and streams of gateways that ended "      \
                        "because they cannot be read")                         \
    ONE(cut_off, "Requests cut off because draining took too long")            \
    ONE(timeouts_client, "Client connections closed for being too slow")       \
    ONE(bytes_in, "Request body bytes")                                        \
    ONE(bytes_out, "Answer body bytes passed on")                              \
    ONE(blocks, "Prompt blocks looked up")                                     \
    ONE(blocks_matched,                                                        \
        "Prompt blocks the chosen worker was expected to hold")                \
    ONE(prompt_tokens, "Prompt tokens, as engines reported them")              \
    ONE(cached_tokens, "Prompt tokens from cache, as engines reported them")   \
    ONE(possible_tokens,                                                       \
        "Prompt tokens that some worker held which might get the request, of " \
        "answers that tell what came from cache")                              \
    ONE(possible_tokens_cached,                                                \
        "Of kvasir_possible_tokens_total, those that came from cache")         \
    ONE(created_cache_tokens,                                                  \
        "Prompt tokens that engines reported to have written to their caches") \
    ONE(completion_tokens, "Tokens of answers, as engines reported them")      \
    FAMILY(lookups, "by", "Requests looked up in what workers hold")           \
    OF("tokens", exact, "in their mirrors")                                    \
    OF("text", inexact, "in belief, because their tokens were unknown")        \
    ONE(tokens_matched, "Prompt tokens the chosen worker's mirror promised")   \
    ONE(tokens_asked, "Prompts that an engine was asked to tokenise")          \
    ONE(tokens_late, "Requests that went on without waiting longer for that")  \
    FAMILY(tokens_failed, "reason", "Prompts that no engine tokenised")        \
    OF("refused", tokens_refused, "it refused to")                             \
    OF("unable", tokens_unable, "it turned out not to")                        \
    OF("timeout", tokens_timed_out, "not within tokens.timeout")               \
    OF("too_large", tokens_too_large, "too large an answer")                   \
    OF("busy", tokens_busy, "not asked: tokens.open_max, or their bytes")      \
    OF("other", tokens_failed, "no good answer")                               \
    FAMILY(tokens_known, "part", "Prompts found in the node's memory")         \
    OF("all", tokens_known, "with all of their tokens")                        \
    OF("some", tokens_known_part, "with an earlier turn")                      \
    ONE(tokens_evicted, "Remembered turns given up for others")                \
    ONE(tokens_unkept, "Turns not remembered, for want of memory")             \
    ONE(tokens_local, "Prompts tokenised by this node")                        \
    FAMILY(tokens_local_failed, "reason",                                      \
           "Prompts that this node did not tokenise")                          \
    OF("refused", tokens_local_refused,                                        \
       "their model's files did not do for them")                              \
    OF("busy", tokens_local_busy,                                              \
       "tokens.open_max, or limits.buffered_bytes_max")                        \
    FAMILY(tokens_wrong, "by",                                                 \
           "Prompts of other tokens than the engine counted")                  \
    OF("memory", tokens_wrong, "remembered turns that promised more")          \
    OF("files", tokens_local_wrong, "tokenised by this node")                  \
    ONE(spans_truncated, "Prompts with more pieces than limits.spans_max")     \
    ONE(loop_turns, "Turns of the lanes' event loops")                         \
    ONE(loop_ticks, "Turns that were due to the lane's tick")                  \
    ONE(facts_lost, "Facts for the control thread lost to a full queue")       \
    ONE(upstream_opened, "Connections opened to workers")                      \
    ONE(upstream_resumed, "Of these, by https: those that resumed a session")  \
    ONE(upstream_reused, "Requests sent over a kept connection")               \
    ONE(upstream_stale, "Kept connections found dead and replaced")

/* X(name, help): levels of a lane, summed over lanes. */
#define METRICS_LEVELS(X)                                          \
    X(tokens_open, "Prompts that engines tokenise now")            \
    X(tokens_connections, "Kept connections for that, unused now") \
    X(tokens_cache_bytes, "Memory of tokenised conversations")     \
    X(tokens_cache_turns, "Turns of conversations that are remembered")

#define METRICS_NO_MEMBER(name, label, help)
#define METRICS_MEMBER(name, help)           struct counter name;
#define METRICS_MEMBER_OF(value, name, help) struct counter name;

#define METRICS_MODES (ELECT_SESSION + 1U) /* enum elect_mode */

/* How much of its prompt a request's worker was expected to hold. */
enum metrics_overlap {
    METRICS_OVERLAP_NONE,
    METRICS_OVERLAP_PART,
    METRICS_OVERLAP_MOST, /* half of it, or more */
    METRICS_OVERLAPS,
};

struct metrics_lane {
    METRICS_LANE(METRICS_MEMBER, METRICS_NO_MEMBER, METRICS_MEMBER_OF)
    METRICS_LEVELS(METRICS_MEMBER)
    struct metrics_ends ends;
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
