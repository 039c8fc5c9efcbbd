/* Patterns on PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "node/content/content_regex_internal.h"

#include <errno.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>

#define STACK_MIN ((size_t)16 << 10)
#define STACK_MAX ((size_t)256 << 10)

struct content_regex {
    pcre2_code *code;
};

struct content_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

int
content_regex_new(struct slice pattern, struct content_regex **out,
                  char why[CONTENT_WHY_MAX])
{
    struct content_regex *regex = calloc(1, sizeof *regex);
    PCRE2_SIZE at = 0;
    int fault = 0;

    *out = NULL;
    if (regex == NULL) {
        return -ENOMEM;
    }
    regex->code = pcre2_compile((PCRE2_SPTR)pattern.ptr, pattern.len,
                                PCRE2_UTF | PCRE2_UCP | PCRE2_CASELESS |
                                    PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                &fault, &at, NULL);
    if (regex->code == NULL) {
        PCRE2_UCHAR text[128] = "";
        (void)pcre2_get_error_message(fault, text, sizeof text);
        (void)snprintf(why, CONTENT_WHY_MAX, "%s at byte %zu",
                       (const char *)text, (size_t)at);
        free(regex);
        return CONTENT_E_BAD;
    }
    (void)pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE); /* or slower */
    *out = regex;
    return 0;
}

void
content_regex_free(struct content_regex *regex)
{
    if (regex != NULL) {
        pcre2_code_free(regex->code);
        free(regex);
    }
}

struct content_matcher *
content_matcher_new(void)
{
    struct content_matcher *matcher = calloc(1, sizeof *matcher);

    if (matcher == NULL) {
        return NULL;
    }
    matcher->data = pcre2_match_data_create(1, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    matcher->stack = pcre2_jit_stack_create(STACK_MIN, STACK_MAX, NULL);
    if (matcher->data == NULL || matcher->context == NULL ||
        matcher->stack == NULL) {
        content_matcher_free(matcher);
        return NULL;
    }
    (void)pcre2_set_match_limit(matcher->context, CONTENT_STEPS_MAX);
    pcre2_jit_stack_assign(matcher->context, NULL, matcher->stack);
    return matcher;
}

void
content_matcher_free(struct content_matcher *matcher)
{
    if (matcher != NULL) {
        pcre2_match_data_free(matcher->data);
        pcre2_match_context_free(matcher->context);
        pcre2_jit_stack_free(matcher->stack);
        free(matcher);
    }
}

int
content_regex_find(const struct content_regex *regex,
                   struct content_matcher *matcher, struct slice text,
                   struct slice *found)
{
    int rc = pcre2_match(regex->code, (PCRE2_SPTR)text.ptr, text.len, 0,
                         PCRE2_NO_UTF_CHECK, matcher->data, matcher->context);

    if (rc < 0) {
        return rc == PCRE2_ERROR_NOMATCH ? 0 : -1;
    }
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(matcher->data);

    /* \K within a lookahead may put the start behind the end. */
    *found =
        (struct slice){text.ptr + at[0], at[1] > at[0] ? at[1] - at[0] : 0};
    return 1;
}
