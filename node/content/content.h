/*
 * Models chosen by what a request says: a name that clients ask for, and rules
 * of which the first that fits says which model serves the request.
 *
 * A rule fits when all of its conditions hold; of a list in a condition any item
 * is enough. Conditions look at one message of the user's, at how long the whole
 * prompt is, at what else the body has (tools, pictures), and at whose request
 * it is. With CONTENT_FIRST that message is the conversation's first one. It
 * stays what it is from turn to turn, so the conversation stays at one model,
 * where its cache is, on every node and without anything remembered.
 *
 * Judging is a pure function of the request and the rules: no node needs
 * another one for it. It is bounded: CONTENT_TEXT_MAX bytes are looked at, and a
 * pattern gets CONTENT_STEPS_MAX steps. One that needs more does not fit, and the
 * verdict says so.
 *
 * A rule may have examples of what its requests say. Of the rules of a name that
 * have some, it fits where the centre of its examples' vectors is the nearest to
 * that of the message. Vectors are an engine's, so a verdict may want one first
 * (CONTENT_LIKE_WANTED), for which whoever judges asks and judges again; without
 * one such a rule does not fit, and the verdict says why.
 *
 * Role: core. Owns: a struct content its rules; a scratch its memory. Thread: a
 * finished content any number of readers, but for counters; a scratch one.
 * Limits: CONTENT_*_MAX. Errors: named outcomes, -ENOMEM.
 */
#ifndef NODE_CONTENT_H
#define NODE_CONTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/qsbr.h"
#include "index/base/slice.h"
#include "node/scan/scan.h"
#include "node/text/text_vector.h"

#define CONTENT_NAMES_MAX     16U
#define CONTENT_RULES_MAX     64U   /* of all names */
#define CONTENT_PATTERNS_MAX  128U  /* the same */
#define CONTENT_PATTERN_BYTES 4096U /* of one; of all words of a rule */
#define CONTENT_TEXT_MAX      8192U /* bytes of a message that are looked at */
#define CONTENT_STEPS_MAX     20000U
#define CONTENT_RULE_NAME_MAX 64U   /* with its NUL */
#define CONTENT_MODEL_MAX     128U  /* the same */
#define CONTENT_TENANTS_MAX   256U  /* names between blanks, and a NUL */
#define CONTENT_SET_MAX       512U  /* bytes of members, and a NUL */
#define CONTENT_SET_DEPTH_MAX 7U    /* in a body 8, as any node takes it */
#define CONTENT_EXAMPLES_MAX  512U  /* of all rules */
#define CONTENT_EXAMPLE_BYTES 1024U /* of one, and of a message beside it */
#define CONTENT_LANES_MAX     64U
#define CONTENT_WHY_MAX       160U

/* Which message of the user's is looked at. */
enum content_look {
    CONTENT_FIRST,
    CONTENT_LAST,
};

/* What a request may have. */
enum content_thing {
    CONTENT_CODE,      /* a fence, or lines of a program */
    CONTENT_TOOLS,     /* in the body */
    CONTENT_MEDIA,     /* the same: pictures, sound, files */
    CONTENT_EMAIL,     /* an address */
    CONTENT_PHONE,     /* a number with its country or area */
    CONTENT_CARD,      /* a payment card's number, by its check digit */
    CONTENT_IBAN,      /* a bank account's number, by its check digits */
    CONTENT_JAILBREAK, /* phrases that ask a model to forget its rules */
    CONTENT_THINGS,
};

/* "code", ...: as a file says it. Static text. */
const char *content_thing_name(enum content_thing thing);

/* Languages that are told apart: by their script, or else by words that are in
 * nearly every sentence. */
enum content_language {
    CONTENT_UNKNOWN, /* none of these, or too little of it */
    CONTENT_AR,
    CONTENT_DE,
    CONTENT_EL,
    CONTENT_EN,
    CONTENT_ES,
    CONTENT_FR,
    CONTENT_HE,
    CONTENT_HI,
    CONTENT_IT,
    CONTENT_JA,
    CONTENT_KO,
    CONTENT_PL,
    CONTENT_PT,
    CONTENT_RO,
    CONTENT_RU,
    CONTENT_TH,
    CONTENT_TR,
    CONTENT_VI,
    CONTENT_ZH,
    CONTENT_LANGUAGES,
};

/* "unknown", "ar", ...: ISO 639-1. Static text. */
const char *content_language_name(enum content_language language);

/* The language of a well-formed text. */
enum content_language content_language_of(struct slice text);

/* What is known of a message's vector. */
enum content_like {
    CONTENT_LIKE_UNASKED, /* nothing: nobody may be asked; no rule that came into
                             question has examples */
    CONTENT_LIKE_WANTED,  /* it may be asked for; judge again with it */
    CONTENT_LIKE_KNOWN,
    CONTENT_LIKE_LOADING, /* there is none: the examples' are not known yet */
    CONTENT_LIKE_LATE,    /* ... it did not come in time */
    CONTENT_LIKE_FAILED,  /* ... an engine did not tell it */
    CONTENT_LIKE_AWAY,    /* ... nobody is there to ask */
    CONTENT_LIKE_TENANT,  /* ... the tenant's words are not for others */
    CONTENT_LIKES,
};

/* "unasked", "wanted", ...: for metrics and explain. Static text. */
const char *content_like_name(enum content_like like);

/* A rule, but for its words, patterns and examples. */
struct content_rule {
    char name[CONTENT_RULE_NAME_MAX];
    char model[CONTENT_MODEL_MAX]; /* "": the name's own */
    uint32_t things;               /* bits of enum content_thing; 0: any */
    uint32_t languages;            /* bits of enum content_language; 0: any */
    uint64_t longer;               /* bytes of prompt, at least */
    uint64_t shorter;              /* at most; 0: any */
    uint32_t semantic_permille; /* for answers to questions like it, the cosine
                                   wanted, at least; 0: the node's; above 1000:
                                   there are none */
    char tenants[CONTENT_TENANTS_MAX]; /* "": any */
    char set[CONTENT_SET_MAX]; /* members for the body: lines "KEY":JSON, each
                                  with a comma at its end; KEY is the name of an
                                  enum scan_option, JSON without line ends */
};

struct content;
struct content_scratch;

enum {
    CONTENT_E_TWICE = 1, /* it is there already */
    CONTENT_E_FULL,      /* a CONTENT_*_MAX is reached */
    CONTENT_E_BAD,       /* a pattern that cannot be compiled */
};

/* No names. 0 and *out, or -ENOMEM. */
int content_new(struct content **out) MUST_CHECK;

/* NULL is fine. */
void content_free(struct content *content);

/* For qsbr_retire() with content_free_retired(). */
struct qsbr_node *content_retired(struct content *content);
void content_free_retired(struct qsbr_node *retired);

/* Adds a name, and the model where none of its rules fits: both shorter than
 * CONTENT_MODEL_MAX. 0, CONTENT_E_TWICE, CONTENT_E_FULL. */
int content_add_name(struct content *content, struct slice name,
                     struct slice model, enum content_look look) MUST_CHECK;

/* Adds a rule to the name that was added last, behind its others. 0,
 * CONTENT_E_TWICE (that name has a rule of this name), CONTENT_E_FULL. */
int content_add_rule(struct content *content, const struct content_rule *rule)
    MUST_CHECK;

/* The rule added last wants one of its words, in any case of letters, or one of
 * its patterns. A word of letters is found as a word, not within one. 0;
 * CONTENT_E_FULL; CONTENT_E_BAD and why. */
int content_add_word(struct content *content, struct slice word) MUST_CHECK;
int content_add_pattern(struct content *content, struct slice pattern,
                        char why[CONTENT_WHY_MAX]) MUST_CHECK;

/* One more example of what the rule added last is for. 0, CONTENT_E_FULL,
 * -ENOMEM. */
int content_add_example(struct content *content, struct slice text) MUST_CHECK;

/* How many there are of all rules; one of them. Borrowed. */
uint32_t content_examples(const struct content *content);
struct slice content_example(const struct content *content, uint32_t at);

/* The examples' vectors, in their order, borrowed for the call; set once, also
 * while others judge. 0; TEXT_VECTOR_E_NONE: those of a rule have no middle; -ENOMEM. */
int content_set_vectors(struct content *content,
                        struct text_vector *const *vectors) MUST_CHECK;

/* All is added. 0; CONTENT_E_BAD and why (a rule's words are too many). */
int content_finish(struct content *content, char why[CONTENT_WHY_MAX])
    MUST_CHECK;

/* Of all names. */
uint32_t content_rules_count(const struct content *content);

/* A name by its place; NULL behind the last one. Borrowed. */
const char *content_name(const struct content *content, uint32_t at);

/* Whether there is that name; and the model where no rule fits. */
bool content_has(const struct content *content, struct slice name);
const char *content_model(const struct content *content, struct slice name);

/* NULL: no memory. */
struct content_scratch *content_scratch_new(void) MUST_CHECK;
void content_scratch_free(struct content_scratch *scratch); /* NULL is fine */

struct content_asked {
    struct slice body;
    const struct scan
        *scan; /* of it; NULL: it has no prompt, and no rule fits */
    struct slice tenant;
    enum content_like like;           /* of the message */
    const struct text_vector *vector; /* with CONTENT_LIKE_KNOWN */
};

/* What was found, as far as some rule of the name asks for it. */
struct content_seen {
    uint64_t bytes;  /* of prompt */
    uint32_t things; /* bits of enum content_thing */
    enum content_language language;
    uint32_t too_hard; /* patterns that were given up */
    enum content_like like;
    const char *nearest; /* rule, with CONTENT_LIKE_KNOWN; "": none */
    uint32_t permille;   /* its cosine */
};

struct content_verdict {
    const char *name; /* borrowed from content, as the next two */
    const char *model;
    const char *rule; /* "": none fits */
    const char *set;  /* members for the body, without those that it has, each
                          with a comma behind it; the scratch's */
    struct slice likened; /* with CONTENT_LIKE_WANTED: what is to have a vector;
                             the scratch's */
    uint32_t counter;     /* for content_count() */
    uint32_t semantic_permille; /* as in content_rule */
    struct content_seen seen;
};

/* Which model a request for that name gets. False: there is no such name. */
bool content_judge(const struct content *content,
                   struct content_scratch *scratch, struct slice name,
                   const struct content_asked *asked,
                   struct content_verdict *verdict) MUST_CHECK;

/* Counts a verdict that was acted on; the lane is the caller's own. */
void content_count(struct content *content, uint32_t lane,
                   const struct content_verdict *verdict);

/* Verdicts for which that was known of a vector. */
uint64_t content_like_count(const struct content *content,
                            enum content_like like);

/* Walks the counters: the next one from *at on, which is moved behind it, with
 * its name and rule ("": none fits). False: there are no more. */
bool content_next_count(const struct content *content, uint32_t *at,
                        const char **name, const char **rule, uint64_t *count);

#endif
