/*
 * Patterns of tokenizer files. Those of tokenizer.json are written for
 * Oniguruma, those of tiktoken for Rust's fancy-regex; both run on PCRE2 here,
 * translated (tokenizer_pattern.c): what would mean something else there, or is
 * not known to mean the same, is refused by name.
 *
 * Role: core. Owns: tok_regex its code, tok_matcher its stack. Thread: a regex
 * any, a matcher one. Limits: steps for each text, tok_matcher_bound().
 */
#ifndef NODE_TOKENIZER_REGEX_INTERNAL_H
#define NODE_TOKENIZER_REGEX_INTERNAL_H

#include "index/base/buf.h"
#include "node/tokenizer/tokenizer_load_internal.h"
#include "node/tokenizer/tokenizer_scan_internal.h"

enum pattern_dialect {
    PATTERN_ONIGURUMA,
    PATTERN_FANCY,
};

struct tok_regex;   /* a compiled pattern */
struct tok_matcher; /* what one thread needs to run them */

/* Appends the pattern as PCRE2 wants it. False: the load has failed. */
bool pattern_translate(struct tok_load *load, struct slice pattern,
                       enum pattern_dialect dialect, struct buf *out);

/* Compiles a pattern; NULL: the load has failed. It is freed with the
 * tokenizer. */
struct tok_regex *tok_regex_new(struct tok_load *load, struct slice pattern,
                                enum pattern_dialect dialect);

/* The hand-made scanner of the pattern, or NULL. */
tok_scan *tok_regex_scan(const struct tok_regex *regex);

#define TOK_DEEPSEEK_PARTS 3U

/* Which of DeepSeek's patterns it is, from 1 on; 0: none. And that pattern. */
unsigned tok_regex_deepseek(const struct tok_regex *regex);
struct slice tok_deepseek_pattern(unsigned part);

/* The scanner for a pattern as it is written in files, or NULL. */
tok_scan *tok_scan_of(struct slice pattern);

/* The pattern behind a name of tiktoken, or an empty slice. */
struct slice tok_pattern_named(struct slice name);

struct tok_matcher *tok_matcher_new(void);
void tok_matcher_free(struct tok_matcher *matcher);

/* Begins with a text of so many bytes: the steps that all matches in it, by all
 * patterns, may take are in proportion. */
void tok_matcher_bound(struct tok_matcher *matcher, size_t len);

/* Goes through all matches in a text, as Oniguruma's find_iter() does. */
struct tok_find {
    struct slice text; /* well-formed */
    size_t at;
    size_t last; /* end of the last match; SIZE_MAX: none */
    size_t start, end;
};

static inline struct tok_find
tok_find_in(struct slice text)
{
    return (struct tok_find){.text = text, .last = SIZE_MAX};
}

/* The next match: 1, with start and end; 0: none; -1: too many steps. */
int tok_find_next(struct tok_find *find, const struct tok_regex *regex,
                  struct tok_matcher *matcher);

void tok_regexes_free(struct tok_regex *first);

#endif
