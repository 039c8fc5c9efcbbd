/*
 * A prompt's token ids, made here: what the engine that gets the request will
 * make of it, by the model's own tokenizer and chat template and by the
 * engine's own rules around them (local_chat.c).
 *
 * A question can be answered with little patience, as a lane does: then a prompt
 * that might take longer than a lane may be held up is LOCAL_E_LATER, and is
 * asked again on another thread.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: struct local_patience;
 * TOKENIZER_TEXT_MAX, TEMPLATE_LIMITS. Errors: outcomes, with `why`.
 */
#ifndef NODE_LOCAL_TOKENS_H
#define NODE_LOCAL_TOKENS_H

#include "index/base/check.h"
#include "node/local/local_model.h"
#include "node/local/local_turns.h"
#include "node/scan/scan.h"
#include "node/template/template_clock.h"
#include "node/view/fleet_view.h"

#define LOCAL_IDS_MAX ((size_t)16 << 20) /* of one prompt */

struct local_question {
    struct local_model *model; /* held by the caller */
    enum scan_api api;         /* by whose rules the body is read */
    enum engine_kind kind;     /* whose rules count */
    struct slice body;         /* whole */
    /* SCAN_API_TEXT and SCAN_API_EMBEDDINGS: */
    struct slice prompt; /* the JSON string's bytes between its quotes */
    bool several;        /* it is the first of several prompts */
    bool plain;          /* without special tokens around it */
    uint32_t keep_last;  /* tokens, by truncate_prompt_tokens; 0: all */
    bool options;        /* it says how it is to be rendered */
    bool distrusted;     /* answer all the same */
    struct template_clock clock;
    uint32_t place;        /* a number of this thread, to find buffers by */
    const uint64_t *names; /* of the conversation's turns, the latest last */
    uint32_t names_count;
};

/* Takes what a scanned body says: api, prompt, plain, keep_last and options. False: no prompt that is tokenised here. */
bool local_question_read(struct local_question *question,
                         const struct scan *scan) MUST_CHECK;

/* How much may be done at once; the fields of LOCAL_AT_ONCE or UINT_MAX. */
struct local_patience {
    size_t body_bytes;     /* of JSON that is read */
    size_t encode_bytes;   /* of text that is tokenised */
    uint64_t render_steps; /* of the template */
};

/*
 * What a lane does itself: below 1 ms. With these bounds the longest takes 0.6 ms
 * (4 KiB of Chinese without a blank; or 135 short messages), and what then
 * turns out to be for a thread up to 0.7 ms: tests/bench/bench_local, Qwen3's
 * files, gcc -O2.
 */
#define LOCAL_AT_ONCE                    \
    ((struct local_patience){            \
        .body_bytes = (size_t)32 << 10,  \
        .encode_bytes = (size_t)4 << 10, \
        .render_steps = 8000,            \
    })

/* What control does itself, for an operator: below 50 ms. */
#define LOCAL_HASTY                        \
    ((struct local_patience){              \
        .body_bytes = (size_t)1 << 20,     \
        .encode_bytes = (size_t)256 << 10, \
        .render_steps = 500000,            \
    })

#define LOCAL_PATIENT               \
    ((struct local_patience){       \
        .body_bytes = SIZE_MAX,     \
        .encode_bytes = SIZE_MAX,   \
        .render_steps = UINT64_MAX, \
    })

enum {
    LOCAL_E_LATER = 1, /* more than there is patience for, or no buffers */
    LOCAL_E_REFUSED,   /* not tokenised here: why says */
};

struct local_answer {
    enum local_way way;
    struct tokenizer_ids ids; /* grows; the caller's, kept between questions */
    char why[LOCAL_WHY_MAX];
};

/*
 * Answers into *answer, whose ids the caller has initialised (max set) and ends.
 * turns: of earlier questions; NULL: none. 0 or an outcome.
 */
int local_tokens(const struct local_question *question,
                 const struct local_patience *patience,
                 struct local_turns *turns, struct local_answer *answer)
    MUST_CHECK;

#endif
