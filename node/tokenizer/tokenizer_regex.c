/* Patterns on PCRE2: compiled to machine code, bounded in steps. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "node/tokenizer/tokenizer_internal.h"

#define PATTERN_MAX     8192
#define STEPS_FREE      256U /* of a match; what takes more is counted */
#define STEPS_MORE      8U   /* times as many when it is tried again */
#define STEPS_BYTE      64U  /* for each byte of the text */
#define STEPS_PLUS      1000000U
#define STEPS_MATCH_MAX 10000000U
#define STACK_MIN       ((size_t)32 << 10)
#define STACK_MAX       ((size_t)4 << 20)

struct tok_regex {
    struct tok_regex *next; /* of the same tokenizer */
    pcre2_code *code;
    tok_scan *scan;
    unsigned part; /* of DeepSeek's, from 1 on; 0: none */
};

struct tok_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    uint32_t limit; /* of a match's steps, as the context has it */
    uint64_t left;  /* steps for the text in work */
};

struct known {
    const char *name; /* of tiktoken; NULL: the same in another spelling */
    const char *pattern;
    tok_scan *scan;
};

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define O200K_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K_LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K_FIRST "[^\\r\\n\\p{L}\\p{N}]?"
#define SPACES      "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CL100K(numbers)                                   \
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers \
                "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES

static const struct known known[] = {
    {"gpt2",
     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
     "|\\s+(?!\\S)|\\s+",
     scan_gpt2},
    {"cl100k_base", CL100K("\\p{N}{1,3}"), scan_cl100k},
    {"qwen", CL100K("\\p{N}"), scan_qwen2},
    {"o200k_base",
     O200K_FIRST O200K_UPPER
     "*" O200K_LOWER "+" CONTRACTION "?|" O200K_FIRST O200K_UPPER
     "+" O200K_LOWER "*" CONTRACTION
     "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES,
     scan_o200k},
};

/* What scan_deepseek does at once, in order. */
static const char *const deepseek[TOK_DEEPSEEK_PARTS] = {
    "\\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
};

struct slice
tok_deepseek_pattern(unsigned part)
{
    CHECK(part >= 1 && part <= TOK_DEEPSEEK_PARTS);
    return slice_of(deepseek[part - 1]);
}

static unsigned
deepseek_part(struct slice pattern)
{
    unsigned part = TOK_DEEPSEEK_PARTS;

    while (part != 0 && !slice_equal(pattern, tok_deepseek_pattern(part))) {
        part--;
    }
    return part;
}

unsigned
tok_regex_deepseek(const struct tok_regex *regex)
{
    return regex->part;
}

tok_scan *
tok_scan_of(struct slice pattern)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (slice_equal(pattern, slice_of(known[i].pattern))) {
            return known[i].scan;
        }
    }
    return NULL;
}

struct slice
tok_pattern_named(struct slice name)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].name != NULL &&
            slice_equal(name, slice_of(known[i].name))) {
            return slice_of(known[i].pattern);
        }
    }
    return (struct slice){.ptr = NULL};
}

tok_scan *
tok_regex_scan(const struct tok_regex *regex)
{
    return regex->scan;
}

static pcre2_code *
compile(struct tok_load *load, struct slice pattern, struct slice translated)
{
    int fault = 0;
    PCRE2_SIZE at = 0;
    char shown[TOK_SHOWN + 4];
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);

    if (context == NULL) {
        (void)tok_fail(load, "out of memory");
        return NULL;
    }
    (void)pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code *code = pcre2_compile(
        (PCRE2_SPTR)translated.ptr, translated.len,
        PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
        &fault, &at, context);
    pcre2_compile_context_free(context);
    if (code == NULL) {
        PCRE2_UCHAR text[128] = "";
        (void)pcre2_get_error_message(fault, text, sizeof text);
        (void)tok_fail(load, "pattern %s: %s", tok_show(pattern, shown),
                       (const char *)text);
        return NULL;
    }
    (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); /* or interpreted */
    return code;
}

struct tok_regex *
tok_regex_new(struct tok_load *load, struct slice pattern,
              enum pattern_dialect dialect)
{
    struct tok_regex *regex = tok_alloc(load, sizeof *regex);
    struct buf translated;

    buf_init(&translated, (size_t)PATTERN_MAX * 64);
    if (regex != NULL && pattern.len > PATTERN_MAX) {
        (void)tok_fail(load, "a pattern of more than %d bytes", PATTERN_MAX);
    } else if (regex != NULL &&
               pattern_translate(load, pattern, dialect, &translated)) {
        regex->code = compile(load, pattern, buf_slice(&translated));
        regex->scan = tok_scan_of(pattern);
        regex->part = deepseek_part(pattern);
        regex->next = load->t->regexes;
        load->t->regexes = regex;
    }
    buf_fini(&translated);
    return load->failed ? NULL : regex;
}

void
tok_regexes_free(struct tok_regex *first)
{
    for (struct tok_regex *regex = first; regex != NULL; regex = regex->next) {
        pcre2_code_free(regex->code);
    }
}

struct tok_matcher *
tok_matcher_new(void)
{
    struct tok_matcher *matcher = calloc(1, sizeof *matcher);

    if (matcher == NULL) {
        return NULL;
    }
    matcher->data = pcre2_match_data_create(8, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    matcher->stack = pcre2_jit_stack_create(STACK_MIN, STACK_MAX, NULL);
    if (matcher->data == NULL || matcher->context == NULL ||
        matcher->stack == NULL) {
        tok_matcher_free(matcher);
        return NULL;
    }
    tok_matcher_bound(matcher, 0);
    pcre2_jit_stack_assign(matcher->context, NULL, matcher->stack);
    return matcher;
}

void
tok_matcher_free(struct tok_matcher *matcher)
{
    if (matcher != NULL) {
        pcre2_match_data_free(matcher->data);
        pcre2_match_context_free(matcher->context);
        pcre2_jit_stack_free(matcher->stack);
        free(matcher);
    }
}

void
tok_matcher_bound(struct tok_matcher *matcher, size_t len)
{
    matcher->left = (uint64_t)len * STEPS_BYTE + STEPS_PLUS;
}

static void
set_limit(struct tok_matcher *matcher, uint32_t steps)
{
    if (matcher->limit != steps) {
        (void)pcre2_set_match_limit(matcher->context, steps);
        matcher->limit = steps;
    }
}

/* One match from find->at on. PCRE2 does not tell how many steps one took: it
 * is tried with few, and those who need more pay for the next limit. */
static int
match_at(const struct tok_find *find, const struct tok_regex *regex,
         struct tok_matcher *matcher)
{
    uint32_t steps = STEPS_FREE;

    for (;;) {
        set_limit(matcher, steps);
        int rc = pcre2_match(regex->code, (PCRE2_SPTR)find->text.ptr,
                             find->text.len, find->at, PCRE2_NO_UTF_CHECK,
                             matcher->data, matcher->context);
        steps *= STEPS_MORE;
        if (rc != PCRE2_ERROR_MATCHLIMIT || steps > STEPS_MATCH_MAX ||
            steps > matcher->left) {
            return rc;
        }
        matcher->left -= steps;
    }
}

int
tok_find_next(struct tok_find *find, const struct tok_regex *regex,
              struct tok_matcher *matcher)
{
    while (find->at <= find->text.len) {
        int rc = match_at(find, regex, matcher);
        if (rc < 0) {
            return rc == PCRE2_ERROR_NOMATCH ? 0 : -1;
        }
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(matcher->data);
        find->start = found[0];
        find->end = found[1];
        if (find->start < find->end || find->last != find->end) {
            find->at = find->end;
            find->last = find->end;
            return 1;
        }
        find->at += find->at < find->text.len
                        ? utf8_len((uint8_t)find->text.ptr[find->at])
                        : 1;
    }
    return 0;
}
