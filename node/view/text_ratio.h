/*
 * How many bytes of a prompt's text make a token, learned from what engines say
 * of their prompts (usage.prompt_tokens), for those that nobody has counted.
 *
 * Text of one kind has one ratio, about; kinds are told apart by the bytes of a
 * piece from its middle. Of each kind a mean c and a mean distance sigma from it
 * are kept, both fading by TEXT_RATIO_KEEP at each sample, and corrected for
 * their start: what the initial value would still weigh is taken out, so that
 * the first samples count in full (of 50 samples, 7.7 % would be the start).
 * Estimates divide by c - sigma: too many tokens cost a place in the longer
 * pool, too few an engine's refusal.
 *
 * Follows arXiv 2604.09613 (EMA 0.95, start 4.0, gamma 1), which does not correct
 * the start.
 *
 * A text's bytes are those of the body, with its escapes: what a client escapes
 * (\u4e2d) is a kind of its own. Short prompts are mostly their template, and
 * teach nothing. Nodes tell each other what they have learned (text_models.h).
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: TEXT_KINDS.
 * Errors: none.
 */
#ifndef NODE_TEXT_RATIO_H
#define NODE_TEXT_RATIO_H

#include <stdint.h>

#include "index/base/slice.h"
#include "node/view/facts.h"

#define TEXT_RATIO_START_MILLI 4000U /* bytes a token, in thousandths */
#define TEXT_RATIO_LEAST_MILLI 500U
#define TEXT_RATIO_MOST_MILLI  20000U
#define TEXT_RATIO_KEEP        0.95
#define TEXT_RATIO_BYTES_LEAST 1024U /* of a prompt that teaches */

enum text_kind {
    TEXT_PROSE,   /* Latin letters and blanks */
    TEXT_CODE,    /* many signs that programs have */
    TEXT_JSON,    /* many quotes, colons and braces */
    TEXT_CJK,     /* Chinese, Japanese, Korean, as UTF-8 */
    TEXT_SCRIPT,  /* other scripts, likewise */
    TEXT_ESCAPED, /* characters as \uXXXX */
    TEXT_KINDS,
};

/* "prose", "code", ... Static text. */
const char *text_kind_name(enum text_kind kind);

/* The kind of a piece of text of any bytes, as it stands in a JSON string; 8 KiB
 * at most. */
enum text_kind text_kind_of(struct slice piece);

/* All zero is an empty one. */
struct text_ratio {
    struct text_ratio_of {
        double sum;   /* of samples, by their weights */
        double apart; /* the same of their distances */
        double left;  /* weight of all samples, below 1 */
    } of[TEXT_KINDS];
};

/* A prompt of that many bytes had so many tokens. */
void text_ratio_add(struct text_ratio *ratio, enum text_kind kind,
                    uint32_t bytes, uint32_t tokens);

/* What is known of one kind, to be told to others and kept: all zero is
 * nothing. */
struct text_told {
    uint32_t weight;      /* of its samples, in millionths */
    uint32_t mean_milli;  /* c, bytes a token in thousandths */
    uint32_t apart_milli; /* sigma */
};

/* What these samples say of a kind. */
struct text_told text_ratio_told(const struct text_ratio *ratio,
                                 enum text_kind kind);

/* Counts another node's samples of a kind with these. What no node tells is
 * bounded. */
void text_ratio_join(struct text_ratio *ratio, enum text_kind kind,
                     const struct text_told *told);

/* What a request's end tells of its prompt, if anything. */
void text_ratio_take(struct text_ratio *ratio,
                     const struct fact_decision *fact);

/* c - sigma, in thousandths of a byte for each token. */
uint32_t text_ratio_milli(const struct text_ratio *ratio, enum text_kind kind);

#endif
