/* Kinds of text, and means that fade. */
#include "node/view/text_ratio.h"

#include <string.h>

#include "index/base/check.h"

#define WEIGHT_SCALE 1000000U

/* Shares of a piece, in hundredths, from which on it is of a kind. */
#define FOREIGN_SHARE 20U
#define CJK_PART      50U /* ... of what is foreign */
#define ESCAPED_SHARE 20U
#define JSON_SHARE    12U
#define CODE_SHARE    10U

/* Counts of a piece, four in a word; 16 bits are enough for PIECE_MAX bytes. */
#define PIECE_MAX  8192U
#define ONE        UINT64_C(1)
#define JSON       ONE                   /* quotes, colons, braces, brackets */
#define CODE       (ONE << 16)           /* signs of programs, and indents */
#define FOREIGN(n) ((uint64_t)(n) << 32) /* bytes beyond ASCII */
#define CJK(n)     (FOREIGN(n) | (uint64_t)(n) << 48) /* ... of CJK */

/* What a byte says: the first of a character speaks for all of it. E3 to E9 and
 * EA to ED begin kana, Chinese and Hangul, with few others. */
static const uint64_t says[UINT8_MAX + 1] = {
    ['"'] = JSON,
    [':'] = JSON,
    ['{'] = JSON + CODE,
    ['}'] = JSON + CODE,
    ['['] = JSON + CODE,
    [']'] = JSON + CODE,
    ['('] = CODE,
    [')'] = CODE,
    [';'] = CODE,
    ['='] = CODE,
    ['_'] = CODE,
    ['<'] = CODE,
    ['>'] = CODE,
    ['*'] = CODE,
    ['#'] = CODE,
    ['&'] = CODE,
    ['|'] = CODE,
    [0xc0 ... 0xdf] = FOREIGN(2),
    [0xe0 ... 0xe2] = FOREIGN(3),
    [0xe3 ... 0xed] = CJK(3),
    [0xee ... 0xef] = FOREIGN(3),
    [0xf0 ... 0xff] = FOREIGN(4),
};

struct tally {
    uint64_t said;
    uint64_t escaped; /* bytes of \uXXXX */
};

const char *
text_kind_name(enum text_kind kind)
{
    static const char *const names[TEXT_KINDS] = {
        [TEXT_PROSE] = "prose",   [TEXT_CODE] = "code",
        [TEXT_JSON] = "json",     [TEXT_CJK] = "cjk",
        [TEXT_SCRIPT] = "script", [TEXT_ESCAPED] = "escaped",
    };

    CHECK(kind < TEXT_KINDS);
    return names[kind];
}

/* What stands behind a backslash counts as what it means; how many bytes. */
static size_t
count_escape(struct tally *t, const char *at, size_t left)
{
    if (left < 2) {
        return 1;
    }
    if (at[1] == 'u') {
        t->escaped += 6;
        return left < 6 ? left : 6;
    }
    if (at[1] == 't') {
        t->said += CODE;
    } else if (at[1] == 'n') {
        bool indent = left >= 4 && at[2] == ' ' && at[3] == ' ';
        t->said += indent ? 2 * CODE : 0;
    } else {
        t->said += says[(uint8_t)at[1]];
    }
    return 2;
}

/* Bytes that are looked at together, two vectors in each step. */
typedef uint8_t lanes __attribute__((vector_size(16)));

#define STEP (2 * sizeof(lanes))

/*
 * Bit 5 of a lane: 0 where its byte is ASCII and says nothing. Adding 6 changes
 * that bit of : ; < = > [ ] _ { | } and of nothing frequent; the others stand in
 * rows of two or four, or alone.
 */
static lanes
signs_of(lanes x)
{
    return ((x + 6) ^ x) | (lanes)((x & 0xfe) == '"') | /* " # */
           (lanes)((x & 0xfc) == '(') |                 /* ( ) * + */
           (lanes)(x == '&');
}

/* Whether no byte of a step says anything; false where some may. */
static bool
is_silent(const char *at)
{
    lanes x;
    lanes y;
    uint64_t both[2];

    memcpy(&x, at, sizeof(x));
    memcpy(&y, at + sizeof(x), sizeof(y));
    lanes any = ((x | y) & 0x80) | ((signs_of(x) | signs_of(y)) & 0x20);
    memcpy(both, &any, sizeof(both));
    return (both[0] | both[1]) == 0;
}

static uint64_t
count_plain(const char *at, size_t len)
{
    const uint8_t *bytes = (const uint8_t *)at;
    uint64_t said = 0;
    size_t i = 0;

    while (i < len) {
        size_t end = len - i < STEP ? len : i + STEP;
        if (end - i == STEP && is_silent(at + i)) {
            i = end;
        }
        for (; i < end; i++) {
            said += says[bytes[i]];
        }
    }
    return said;
}

enum text_kind
text_kind_of(struct slice piece)
{
    uint64_t bytes = piece.len;
    struct tally t = {0};

    CHECK(piece.len <= PIECE_MAX);
    while (piece.len != 0) {
        const char *escape = memchr(piece.ptr, '\\', piece.len);
        size_t len = escape != NULL ? (size_t)(escape - piece.ptr) : piece.len;
        t.said += count_plain(piece.ptr, len);
        if (escape != NULL) {
            len += count_escape(&t, escape, piece.len - len);
        }
        piece.ptr += len;
        piece.len -= len;
    }
    uint64_t json = t.said & UINT16_MAX;
    uint64_t code = t.said >> 16 & UINT16_MAX;
    uint64_t foreign = t.said >> 32 & UINT16_MAX;
    uint64_t cjk = t.said >> 48;
    if (foreign * 100 >= bytes * FOREIGN_SHARE && foreign > 0) {
        return cjk * 100 >= foreign * CJK_PART ? TEXT_CJK : TEXT_SCRIPT;
    }
    if (t.escaped * 100 >= bytes * ESCAPED_SHARE && t.escaped > 0) {
        return TEXT_ESCAPED;
    }
    if (json * 100 >= bytes * JSON_SHARE && json > 0) {
        return TEXT_JSON;
    }
    return code * 100 >= bytes * CODE_SHARE && code > 0 ? TEXT_CODE
                                                        : TEXT_PROSE;
}

void
text_ratio_add(struct text_ratio *ratio, enum text_kind kind, uint32_t bytes,
               uint32_t tokens)
{
    CHECK(kind < TEXT_KINDS);
    struct text_ratio_of *of = &ratio->of[kind];

    if (tokens == 0 || bytes < TEXT_RATIO_BYTES_LEAST) {
        return;
    }
    double sample = (double)bytes / tokens;
    double least = TEXT_RATIO_LEAST_MILLI / 1000.0;
    double most = TEXT_RATIO_MOST_MILLI / 1000.0;
    sample = sample < least ? least : sample > most ? most : sample;
    double mean = of->left > 0 ? of->sum / of->left : sample;
    double apart = sample > mean ? sample - mean : mean - sample;
    const double fresh = 1 - TEXT_RATIO_KEEP;
    of->sum = TEXT_RATIO_KEEP * of->sum + fresh * sample;
    of->apart = TEXT_RATIO_KEEP * of->apart + fresh * apart;
    of->left = TEXT_RATIO_KEEP * of->left + fresh;
}

static uint32_t
scaled(double number, double scale)
{
    return (uint32_t)(number * scale + 0.5);
}

struct text_told
text_ratio_told(const struct text_ratio *ratio, enum text_kind kind)
{
    CHECK(kind < TEXT_KINDS);
    const struct text_ratio_of *of = &ratio->of[kind];

    if (of->left <= 0) {
        return (struct text_told){.weight = 0};
    }
    return (struct text_told){
        .weight = scaled(of->left, WEIGHT_SCALE),
        .mean_milli = scaled(of->sum / of->left, 1000),
        .apart_milli = scaled(of->apart / of->left, 1000),
    };
}

static double
bounded(uint32_t number, uint32_t least, uint32_t most)
{
    return number < least ? least : number > most ? most : number;
}

void
text_ratio_join(struct text_ratio *ratio, enum text_kind kind,
                const struct text_told *told)
{
    CHECK(kind < TEXT_KINDS);
    struct text_ratio_of *of = &ratio->of[kind];
    double weight = bounded(told->weight, 0, WEIGHT_SCALE) / WEIGHT_SCALE;
    double mean = bounded(told->mean_milli, TEXT_RATIO_LEAST_MILLI,
                          TEXT_RATIO_MOST_MILLI) /
                  1000;
    double apart = bounded(told->apart_milli, 0, TEXT_RATIO_MOST_MILLI) / 1000;

    of->sum += weight * mean;
    of->apart += weight * apart;
    of->left += weight;
}

void
text_ratio_take(struct text_ratio *ratio, const struct fact_decision *fact)
{
    CHECK(fact->text_kind < TEXT_KINDS);
    if (fact->resumed == 0) {
        text_ratio_add(ratio, (enum text_kind)fact->text_kind, fact->text_bytes,
                       fact->prompt_tokens);
    }
}

uint32_t
text_ratio_milli(const struct text_ratio *ratio, enum text_kind kind)
{
    CHECK(kind < TEXT_KINDS);
    const struct text_ratio_of *of = &ratio->of[kind];

    if (of->left <= 0) {
        return TEXT_RATIO_START_MILLI;
    }
    double milli = (of->sum - of->apart) / of->left * 1000 + 0.5;
    return milli > TEXT_RATIO_LEAST_MILLI ? (uint32_t)milli
                                          : TEXT_RATIO_LEAST_MILLI;
}
