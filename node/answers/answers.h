/*
 * Answers that are kept for requests that repeat, for all lanes of a node.
 *
 * Which requests and which answers these are says answers_rule.h. A request asks
 * for its name. If nobody has, it takes off (ANSWERS_LEADS) and lands, once, with
 * its answer or without; meanwhile others of that name are told ANSWERS_FLYING,
 * and whoever lands is told which lanes have some of those.
 *
 * Memory is in ANSWERS_SHARDS parts, each behind a lock of its own that is held
 * for a look at one name: no answer is copied, sent or judged inside. Clearing
 * holds it for as long as it takes to walk a part. Lanes of a node without a
 * cache come by no lock.
 *
 * Where requests' questions have vectors (text_vector.h), one that has no answer
 * by its name may get that to a question like it: all else that the two requests
 * say is the same, so is what answers_guard.h holds, and the cosine of the vectors
 * is no less than the caller wants. Vectors take an eighth of bytes_max beside
 * it, from the first one on.
 *
 * Role: shell around answers_table_internal.h and answers_alike_internal.h, which
 * are cores. Owns: answers.
 * Thread: any. Limits: bytes_max, and an entry per ANSWERS_ENTRY_BYTES of them; an
 * answer is no larger than answers_size_max(). Errors: what finds no memory is
 * not kept.
 */
#ifndef NODE_ANSWERS_H
#define NODE_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/counter.h"
#include "index/base/slice.h"
#include "index/index.h"
#include "node/text/text_vector.h"

#define ANSWERS_SHARDS      16U
#define ANSWERS_ENTRY_BYTES 1024U /* of bytes_max, for each entry */
#define ANSWERS_TYPE_MAX    128U  /* of an answer's Content-Type, with a NUL */

/* Whose answer to what. */
struct answers_key {
    struct key_wide name; /* of all that the answer depends on */
    uint64_t tenant;      /* hash of its name; 0: nobody's */
    uint64_t model;       /* hash of its name */
};

struct answers_kept {
    uint32_t refs;     /* under the lock of its part */
    uint64_t since_us; /* it was kept */
    uint64_t age_us;   /* that it had then: another node got it; or 0 */
    uint32_t alike;    /* it answered a question like this one: their cosine in
                          thousandths; 0: this one */
    size_t len;        /* of the body */
    char type[ANSWERS_TYPE_MAX];
    char body[];
};

struct answers;
struct answers_flight;

enum answers_found {
    ANSWERS_HIT,    /* got.answer is the caller's to answers_give_back() */
    ANSWERS_FLYING, /* its lane will be told */
    ANSWERS_LEADS,  /* got.flight is the caller's to answers_land() */
    ANSWERS_NONE,   /* not there, and the caller has nothing to do with it */
};

struct answers_asker {
    uint32_t lane;
    bool leads; /* takes off if nobody has */
    bool anew;  /* what is there does not do: it is dropped */
};

struct answers_got {
    const struct answers_kept *answer;
    struct answers_flight *flight;
};

/* What is cleared: of that tenant, of that model, or both. */
struct answers_which {
    bool tenants;
    bool models;
    uint64_t tenant;
    uint64_t model;
};

/* What may be asked in other words. */
struct answers_question {
    struct key_wide kin; /* of all that the answer depends on but the words */
    uint64_t tenant;     /* as in answers_key */
    uint64_t model;
    uint64_t guard; /* answers_guard() of the words */
    const struct text_vector *vector;
    uint32_t permille; /* the cosine wanted, at least */
};

enum answers_alike {
    ANSWERS_ALIKE,   /* *key is that of an answer, which may be gone */
    ANSWERS_GUARDED, /* there is one but for its guard */
    ANSWERS_UNLIKE,
};

/* What comes of questions, for the metrics; counted by those who ask. */
struct answers_asked {
    struct counter alike; /* they were answered */
    struct counter guarded;
    struct counter unlike;
    struct counter late;   /* the vector did not come in time */
    struct counter failed; /* an engine did not tell one */
    struct counter away;   /* none was asked */
};

struct answers_stats {
    uint64_t vectors;      /* kept now */
    uint64_t vector_bytes; /* likewise */
    uint64_t bytes;        /* kept now */
    uint64_t entries;      /* likewise */
    uint64_t flights;      /* open now */
    uint64_t stored;
    uint64_t evicted; /* of these, for others */
    uint64_t expired; /* of these, by age; seen when they are asked for */
    uint64_t cleared; /* of these */
    uint64_t refused; /* too large, or no memory */
};

/* ttl_ms: how long an answer is kept. seed: nobody else knows it. 0 and *out,
 * the caller's to answers_free(), or -ENOMEM. */
int answers_new(struct answers **out, size_t bytes_max, uint32_t ttl_ms,
                uint64_t seed) MUST_CHECK;

/* Nobody uses it any more. NULL is fine. */
void answers_free(struct answers *cache);

/* How long answers are kept that land from here on. */
void answers_set_ttl(struct answers *cache, uint32_t ttl_ms);

/* For names: answers_form.h. */
uint64_t answers_seed(const struct answers *cache);

/* Bytes of an answer's body, at most. */
size_t answers_size_max(const struct answers *cache);

/* An answer with room for so many bytes, the caller's to fill in and to
 * answers_land(); NULL: no memory. */
struct answers_kept *answers_kept_new(size_t len) MUST_CHECK;

/* Asks for a name; what comes of it is in *got. */
enum answers_found answers_ask(struct answers *cache,
                               const struct answers_key *key,
                               const struct answers_asker *asker,
                               uint64_t now_us, struct answers_got *got)
    MUST_CHECK;

/* The flight ends: with this answer, which is the cache's from here on, or with
 * NULL. Returns the lanes that wait for it, a bit each. */
uint64_t answers_land(struct answers *cache, const struct answers_key *key,
                      struct answers_flight *flight,
                      struct answers_kept *answer, uint64_t now_us) MUST_CHECK;

/* The answer to that name is not used any more. */
void answers_give_back(struct answers *cache, const struct answers_key *key,
                       const struct answers_kept *answer);

/* Drops what is kept, and what is in flight once it lands. Returns how many
 * answers it dropped. */
uint32_t answers_clear(struct answers *cache,
                       const struct answers_which *which);

/* Finds the answer to a question like that one: ANSWERS_ALIKE, *key and the cosine
 * in *permille. The caller asks for that answer, and if it is gone says so by
 * answers_touch_alike(). */
enum answers_alike answers_find_alike(struct answers *cache,
                                      const struct answers_question *question,
                                      struct answers_key *key,
                                      uint32_t *permille) MUST_CHECK;

/* The answer of that key was given to the question, or was gone. */
void answers_touch_alike(struct answers *cache,
                         const struct answers_question *question,
                         const struct answers_key *key, bool gone);

/* The answer of that key is kept, and is to that question, whose vector is the
 * last argument, the cache's from here on; question->vector is not looked at. */
void answers_add_alike(struct answers *cache,
                       const struct answers_question *question,
                       const struct answers_key *key,
                       struct text_vector *vector);

/* Never NULL. */
struct answers_asked *answers_asked(struct answers *cache);

/* As of now, part by part: what moves meanwhile may count twice. */
void answers_stats(struct answers *cache, struct answers_stats *stats);

#endif
