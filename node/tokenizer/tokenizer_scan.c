/*
 * The patterns by which nearly all models cut text into words, by hand: some
 * times faster than PCRE2's machine code, and held to it by property_tokenizer.
 * Each begins at text[at], where a word starts, and returns the word's end;
 * every text is covered. The class of each character is one look-up.
 *
 * gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+
 *         |\s+(?!\S)|\s+
 * qwen2   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}
 *         | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * cl100k  the same, with \p{N}{1,3}; Llama 3 has it too
 * o200k   words are capitals and then small letters, with their contraction
 *
 * And DeepSeek's three (V3, R1), which cut one after the other what the one
 * before leaves: numbers, then Chinese and kana, then words. To the last of them
 * each of its pieces is a text of its own, Chinese ones, too. So what begins a
 * number, and where Chinese begins or ends, is an end of the text to what is
 * before it.
 */
#include "node/tokenizer/tokenizer_scan_internal.h"

#define OTHER(class) (((class) & (TOK_LETTER | TOK_NUMBER | TOK_SPACE)) == 0)

/* The end of the run of characters from text[at] on that have a flag. */
static inline size_t
run_of(const struct tok_classes *classes, struct slice text, size_t at,
       uint8_t flag)
{
    while (at < text.len) {
        uint8_t lead = (uint8_t)text.ptr[at];
        if (LIKELY(lead < 0x80)) {
            if ((classes->ascii[lead] & flag) == 0) {
                return at;
            }
            at++;
        } else {
            size_t han = (flag & (TOK_LETTER | TOK_LOWER)) != 0
                             ? tok_han_until(text, at, 0xe9)
                             : at;
            if (han > at) {
                at = han;
                continue;
            }
            if ((tok_class(classes, utf8_read(text.ptr + at)) & flag) == 0) {
                return at;
            }
            at += utf8_len(lead);
        }
    }
    return at;
}

/* The same for what is neither letter, number nor space. */
static inline size_t
run_of_others(const struct tok_classes *classes, struct slice text, size_t at)
{
    while (at < text.len && OTHER(tok_class_at(classes, text.ptr + at))) {
        at += utf8_len((uint8_t)text.ptr[at]);
    }
    return at;
}

static inline bool
is_newline(char c)
{
    return c == '\n' || c == '\r';
}

size_t
scan_contraction(struct slice text, size_t at, bool fold)
{
    size_t left = text.len - at;
    char mask = fold ? 0x20 : 0;

    if (left < 2) {
        return 0;
    }
    char a = (char)(text.ptr[at + 1] | mask);
    if (text.ptr[at + 1] >= 'A' && !((uint8_t)text.ptr[at + 1] & 0x80) &&
        (a == 's' || a == 't' || a == 'm' || a == 'd')) {
        return 2;
    }
    if (left < 3) {
        return 0;
    }
    if (fold && memcmp(text.ptr + at + 1, "\xc5\xbf", 2) == 0) {
        return 3;
    }
    char b = (char)(text.ptr[at + 2] | mask);
    if (text.ptr[at + 2] < 'A') {
        return 0;
    }
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') ||
                   (a == 'l' && b == 'l')
               ? 3
               : 0;
}

/* \s*[\r\n]+ when `lines`, else \s+(?!\S) and \s+: text[at] is a space. */
static size_t
scan_space(const struct tok_classes *classes, struct slice text, size_t at,
           bool lines)
{
    size_t end = run_of(classes, text, at, TOK_SPACE);

    if (lines) {
        for (size_t i = end; i > at; i--) {
            if (is_newline(text.ptr[i - 1])) {
                return i;
            }
        }
    }
    if (end == text.len) {
        return end;
    }
    size_t last = utf8_back(text.ptr, end);
    return last > at ? last : end;
}

static size_t
scan_numbers(const struct tok_classes *classes, struct slice text, size_t at,
             unsigned most)
{
    while (most > 0 && at < text.len &&
           (tok_class_at(classes, text.ptr + at) & TOK_NUMBER) != 0) {
        at += utf8_len((uint8_t)text.ptr[at]);
        most--;
    }
    return at;
}

size_t
scan_gpt2(const struct tok_classes *classes, struct slice text, size_t at)
{
    size_t from = at + (text.ptr[at] == ' ');

    if (text.ptr[at] == '\'') {
        size_t len = scan_contraction(text, at, false);
        if (len > 0) {
            return at + len;
        }
    }
    if (from == text.len) {
        return from;
    }
    uint8_t class = tok_class_at(classes, text.ptr + from);
    if (class & TOK_LETTER) {
        return run_of(classes, text, from, TOK_LETTER);
    }
    if (class & TOK_NUMBER) {
        return run_of(classes, text, from, TOK_NUMBER);
    }
    if (OTHER(class)) {
        return run_of_others(classes, text, from);
    }
    return scan_space(classes, text, at, false);
}

/* What cl100k and o200k have in common after words: numbers, others with the
 * newlines (and slashes) behind them, spaces. */
static size_t
scan_rest(const struct tok_classes *classes, struct slice text, size_t at,
          unsigned numbers, bool slashes)
{
    size_t from = at + (text.ptr[at] == ' ');
    uint8_t class = tok_class_at(classes, text.ptr + at);

    if (class & TOK_NUMBER) {
        return scan_numbers(classes, text, at, numbers);
    }
    if (from < text.len && OTHER(tok_class_at(classes, text.ptr + from))) {
        size_t end = run_of_others(classes, text, from);
        while (end < text.len && (is_newline(text.ptr[end]) ||
                                  (slashes && text.ptr[end] == '/'))) {
            end++;
        }
        return end;
    }
    return scan_space(classes, text, at, true);
}

static inline size_t
scan_cl100k_numbers(const struct tok_classes *classes, struct slice text,
                    size_t at, unsigned numbers)
{
    uint8_t lead = (uint8_t)text.ptr[at];
    size_t len = utf8_len(lead);
    uint8_t class = tok_class_at(classes, text.ptr + at);

    if (class & TOK_LETTER) {
        return run_of(classes, text, at + len, TOK_LETTER);
    }
    if (lead == '\'') {
        size_t found = scan_contraction(text, at, true);
        if (found > 0) {
            return at + found;
        }
    }
    if ((class & TOK_NUMBER) == 0 && !is_newline((char)lead) &&
        at + len < text.len &&
        (tok_class_at(classes, text.ptr + at + len) & TOK_LETTER) != 0) {
        return run_of(classes, text, at + len, TOK_LETTER);
    }
    return scan_rest(classes, text, at, numbers, false);
}

size_t
scan_cl100k(const struct tok_classes *classes, struct slice text, size_t at)
{
    return scan_cl100k_numbers(classes, text, at, 3);
}

size_t
scan_qwen2(const struct tok_classes *classes, struct slice text, size_t at)
{
    return scan_cl100k_numbers(classes, text, at, 1);
}

/*
 * Capitals and then at least one small letter, from text[at] on: the end, or 0.
 * Then *capitals is the end of the run of capitals. Many letters are both: the
 * run of capitals takes them first, and gives back the last of them when no
 * small letter follows.
 */
static size_t
scan_cased(const struct tok_classes *classes, struct slice text, size_t at,
           size_t *capitals)
{
    size_t both = 0;
    uint8_t class = 0;

    while (at < text.len) {
        class = tok_class_at(classes, text.ptr + at);
        if ((class & TOK_UPPER) == 0) {
            break;
        }
        at += utf8_len((uint8_t)text.ptr[at]);
        if (class & TOK_LOWER) {
            both = at;
        }
    }
    *capitals = at;
    if (at < text.len && (class & TOK_LOWER) != 0 && (class & TOK_UPPER) == 0) {
        return run_of(classes, text, at, TOK_LOWER);
    }
    return both;
}

static size_t
with_contraction(struct slice text, size_t end)
{
    return end < text.len && text.ptr[end] == '\''
               ? end + scan_contraction(text, end, true)
               : end;
}

size_t
scan_o200k(const struct tok_classes *classes, struct slice text, size_t at)
{
    uint8_t class = tok_class_at(classes, text.ptr + at);
    size_t next = at + utf8_len((uint8_t)text.ptr[at]);
    size_t capitals = 0;
    size_t end = 0;

    if (class & TOK_LETTER) {
        end = scan_cased(classes, text, at, &capitals);
        return with_contraction(text, end != 0 ? end : capitals);
    }
    if ((class & TOK_NUMBER) == 0 && !is_newline(text.ptr[at])) {
        end = scan_cased(classes, text, next, &capitals);
        if (end != 0) {
            return with_contraction(text, end);
        }
        if (class & TOK_LOWER) { /* a mark by itself */
            return with_contraction(text, next);
        }
        if (capitals > next) {
            return with_contraction(text, capitals);
        }
    }
    return scan_rest(classes, text, at, 3, true);
}

/* What a piece of DeepSeek's last pattern is made of. */
enum deepseek_kind {
    DEEPSEEK_END,    /* it is of another piece, or the text's end */
    DEEPSEEK_LETTER, /* L, M */
    DEEPSEEK_SPACE,
    DEEPSEEK_SIGN, /* P, S */
    DEEPSEEK_REST,
};

/* [\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}] */
static inline bool
is_deepseek_chinese(const char *text)
{
    uint8_t lead = (uint8_t)text[0];

    if (lead < 0xe3 || lead > 0xe9) {
        return false;
    }
    uint32_t c = utf8_read(text);
    return (c >= 0x4e00 && c <= 0x9fa5) || (c >= 0x3040 && c <= 0x30ff);
}

/* Of a piece of Chinese, or of one without. */
static inline enum deepseek_kind
deepseek_kind(const struct tok_classes *classes, struct slice text, size_t at,
              bool chinese)
{
    if (at == text.len || is_deepseek_chinese(text.ptr + at) != chinese) {
        return DEEPSEEK_END;
    }
    uint8_t class = tok_class_at(classes, text.ptr + at);
    if ((class & TOK_NUMBER) != 0) {
        return DEEPSEEK_END;
    }
    if ((class & (TOK_LETTER | TOK_UPPER | TOK_LOWER)) != 0) {
        return DEEPSEEK_LETTER;
    }
    if ((class & TOK_SPACE) != 0) {
        return DEEPSEEK_SPACE;
    }
    bool sign = (uint8_t)text.ptr[at] < 0x80
                    ? (class & TOK_PUNCT) != 0
                    : tok_is_sign(utf8_read(text.ptr + at));
    return sign ? DEEPSEEK_SIGN : DEEPSEEK_REST;
}

static inline size_t
deepseek_run(const struct tok_classes *classes, struct slice text, size_t at,
             bool chinese, enum deepseek_kind kind)
{
    while (deepseek_kind(classes, text, at, chinese) == kind) {
        at += utf8_len((uint8_t)text.ptr[at]);
        if (chinese && at < text.len && kind == DEEPSEEK_LETTER) {
            at = tok_han_until(text, at, 0xe8);
        }
    }
    return at;
}

static inline bool
is_ascii_letter(char c)
{
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ of a piece, not of the text. */
static size_t
deepseek_space(const struct tok_classes *classes, struct slice text, size_t at)
{
    size_t end = deepseek_run(classes, text, at, false, DEEPSEEK_SPACE);

    for (size_t i = end; i > at; i--) {
        if (is_newline(text.ptr[i - 1])) {
            return i;
        }
    }
    if (deepseek_kind(classes, text, end, false) == DEEPSEEK_END) {
        return end;
    }
    size_t last = utf8_back(text.ptr, end);
    return last > at ? last : end;
}

/* Of what no alternative matches, all is one word up to where one does. */
static size_t
deepseek_rest(const struct tok_classes *classes, struct slice text, size_t at,
              bool chinese)
{
    size_t next = at;

    do {
        at = next;
        if (deepseek_kind(classes, text, at, chinese) != DEEPSEEK_REST) {
            return at;
        }
        next = at + utf8_len((uint8_t)text.ptr[at]);
    } while (deepseek_kind(classes, text, next, chinese) != DEEPSEEK_LETTER);
    return at;
}

/* A sign and letters, both of ASCII: the end, or 0. */
static size_t
deepseek_signed(struct slice text, size_t at)
{
    size_t end = at + 1;

    while (end < text.len && is_ascii_letter(text.ptr[end])) {
        end++;
    }
    return (uint8_t)text.ptr[at] < 0x80 && end > at + 1 ? end : 0;
}

size_t
scan_deepseek(const struct tok_classes *classes, struct slice text, size_t at)
{
    bool chinese = is_deepseek_chinese(text.ptr + at);
    enum deepseek_kind kind = deepseek_kind(classes, text, at, chinese);
    size_t next = at + utf8_len((uint8_t)text.ptr[at]);
    size_t from = at + (text.ptr[at] == ' ');

    if (kind == DEEPSEEK_END) {
        return scan_numbers(classes, text, at, 3);
    }
    if (kind == DEEPSEEK_SIGN) {
        size_t end = deepseek_signed(text, at);
        if (end != 0) {
            return end;
        }
    } else if (kind == DEEPSEEK_LETTER ||
               (!is_newline(text.ptr[at]) &&
                deepseek_kind(classes, text, next, chinese) ==
                    DEEPSEEK_LETTER)) {
        return deepseek_run(classes, text, next, chinese, DEEPSEEK_LETTER);
    }
    if (deepseek_kind(classes, text, from, chinese) == DEEPSEEK_SIGN) {
        size_t end = deepseek_run(classes, text, from, chinese, DEEPSEEK_SIGN);
        while (end < text.len && !chinese && is_newline(text.ptr[end])) {
            end++;
        }
        return end;
    }
    return kind == DEEPSEEK_SPACE ? deepseek_space(classes, text, at)
                                  : deepseek_rest(classes, text, at, chinese);
}
