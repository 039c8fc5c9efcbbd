/* Kinds of text, and means that fade. */
#include "node/view/text_ratio.h"

#include "index/base/check.h"

#define WEIGHT_SCALE 1000000U

/* Shares of a piece, in hundredths, from which on it is of a kind. */
#define FOREIGN_SHARE 20U
#define CJK_PART      50U /* ... of what is foreign */
#define ESCAPED_SHARE 20U
#define JSON_SHARE    12U
#define CODE_SHARE    10U

struct tally {
    uint32_t bytes;
    uint32_t foreign; /* bytes of characters beyond ASCII */
    uint32_t cjk;     /* of these */
    uint32_t escaped; /* bytes of \uXXXX */
    uint32_t json;    /* quotes, colons, commas, braces, brackets */
    uint32_t code;    /* signs of programs, and indents */
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

/* Bytes of the character that begins with this one; 1 within one. */
static uint32_t
character_bytes(uint8_t first)
{
    return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
}

/* E3 to E9 and EA to ED begin kana, Chinese and Hangul, with few others. */
static bool
begins_cjk(uint8_t first)
{
    return first >= 0xe3 && first <= 0xed;
}

static void
count_foreign(struct tally *t, uint8_t first)
{
    uint32_t bytes = character_bytes(first);

    t->foreign += bytes;
    t->cjk += begins_cjk(first) ? bytes : 0;
}

/* A sign of ASCII. */
static void
count_sign(struct tally *t, uint8_t sign)
{
    switch (sign) {
    case '"':
    case ':':
        t->json++;
        break;
    case '{':
    case '}':
    case '[':
    case ']':
        t->json++;
        t->code++;
        break;
    case '(':
    case ')':
    case ';':
    case '=':
    case '_':
    case '<':
    case '>':
    case '*':
    case '#':
    case '&':
    case '|':
        t->code++;
        break;
    default:
        break;
    }
}

/* What stands behind a backslash counts as what it means; how many bytes. */
static size_t
count_escape(struct tally *t, const uint8_t *at, size_t left)
{
    if (left < 2) {
        return 1;
    }
    if (at[1] == 'u') {
        t->escaped += 6;
        return 6;
    }
    if (at[1] == 't') {
        t->code++;
    } else if (at[1] == 'n') {
        bool indent = left >= 4 && at[2] == ' ' && at[3] == ' ';
        t->code += indent ? 2 : 0;
    } else {
        count_sign(t, at[1]);
    }
    return 2;
}

enum text_kind
text_kind_of(struct slice piece)
{
    const uint8_t *bytes = (const uint8_t *)piece.ptr;
    struct tally t = {.bytes = (uint32_t)piece.len};

    for (size_t i = 0; i < piece.len;) {
        if (bytes[i] == '\\') {
            i += count_escape(&t, bytes + i, piece.len - i);
        } else if (bytes[i] >= 0xc0) {
            count_foreign(&t, bytes[i]);
            i += character_bytes(bytes[i]);
        } else {
            count_sign(&t, bytes[i]);
            i++;
        }
    }
    if (t.foreign * 100 >= t.bytes * FOREIGN_SHARE && t.foreign > 0) {
        return t.cjk * 100 >= t.foreign * CJK_PART ? TEXT_CJK : TEXT_SCRIPT;
    }
    if (t.escaped * 100 >= t.bytes * ESCAPED_SHARE && t.escaped > 0) {
        return TEXT_ESCAPED;
    }
    if (t.json * 100 >= t.bytes * JSON_SHARE && t.json > 0) {
        return TEXT_JSON;
    }
    return t.code * 100 >= t.bytes * CODE_SHARE && t.code > 0 ? TEXT_CODE
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
