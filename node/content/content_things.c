/* What a text has. */
#include "node/content/content_things_internal.h"

#include <string.h>

#include "index/base/ascii.h"

#define CODE_LINES   3U  /* of a program, at least, ... */
#define CODE_PERCENT 30U /* ... and so much of all lines with something */
#define CANDIDATES   32U /* looked at in a text, of numbers with check digits */
#define CARD_LEAST   13U /* digits */
#define CARD_MOST    19U
#define IBAN_LEAST   15U /* letters and digits */
#define IBAN_MOST    34U

const char *
content_thing_name(enum content_thing thing)
{
    static const char *const names[] = {
        "code", "tools", "media", "email", "phone", "card", "iban", "jailbreak",
    };
    _Static_assert(sizeof names / sizeof names[0] == CONTENT_THINGS, "all");

    CHECK(thing < CONTENT_THINGS);
    return names[thing];
}

/* Of cards and accounts, candidates: their check digits decide. */
static const char *const patterns[CONTENT_THINGS] = {
    [CONTENT_EMAIL] = "[\\w.%+-]++@(?:[a-z0-9-]++\\.)++[a-z]{2,}",
    [CONTENT_PHONE] =
        "(?<![\\w.])(?:\\+\\d{1,3}[ .-]?(?:\\(\\d{1,4}\\)|\\d{1,4})"
        "(?:[ .-]?\\d{2,4}){2,4}"
        "|\\(\\d{3}\\) ?\\d{3}-\\d{4}|\\d{3}-\\d{3}-\\d{4})(?!\\w)",
    [CONTENT_CARD] = "(?<![\\w.-])\\d(?:[ -]?\\d){12,18}(?![\\w-])",
    [CONTENT_IBAN] = "(?<!\\w)[a-z]{2}\\d{2}(?: ?[a-z0-9]{4}){2,7}(?: "
                     "?[a-z0-9]{1,3})?(?!\\w)",
    [CONTENT_JAILBREAK] =
        "(?:ignore|disregard|forget)\\s++(?:all\\s++|any\\s++|everything\\s++)?"
        "(?:of\\s++)?(?:the\\s++|your\\s++|my\\s++)?"
        "(?:previous|prior|above|earlier|former|system)\\s++"
        "(?:instruction|direction|rule|prompt|guideline|message|command)s?"
        "|(?:ignore|disregard|bypass|override)\\s++(?:all\\s++)?your\\s++"
        "(?:\\w++\\s++)?(?:rule|guideline|restriction|polic|safety|instruction)"
        "|do\\s++anything\\s++now|\\bDAN\\s++mode\\b"
        "|(?:enable|enter|activate)\\s++(?:developer|god|jailbreak)\\s++mode"
        "|(?:reveal|print|show|repeat|output)\\s++(?:me\\s++)?"
        "(?:your|the)\\s++(?:hidden\\s++|initial\\s++|full\\s++)?"
        "system\\s++(?:prompt|message)"
        "|(?:pretend|act\\s++as\\s++if)\\s++(?:that\\s++)?you\\s++"
        "(?:have\\s++no|are\\s++not\\s++bound\\s++by|are\\s++without)\\s++"
        "(?:any\\s++)?(?:rule|guideline|restriction|filter|limit)",
};

int
content_things_init(struct content_things *things)
{
    char why[CONTENT_WHY_MAX];
    int outcome = 0;

    memset(things, 0, sizeof *things);
    for (size_t i = 0; i < CONTENT_THINGS && outcome == 0; i++) {
        if (patterns[i] != NULL) {
            outcome = content_regex_new(slice_of(patterns[i]),
                                        &things->regex[i], why);
            CHECK(outcome != CONTENT_E_BAD);
        }
    }
    return outcome;
}

void
content_things_fini(struct content_things *things)
{
    for (size_t i = 0; i < CONTENT_THINGS; i++) {
        content_regex_free(things->regex[i]);
    }
}

/* The check digit of a card's number (Luhn). */
static bool
is_card(struct slice text)
{
    uint32_t digits = 0;
    uint32_t sum = 0;

    for (size_t i = text.len; i-- > 0;) {
        if (ascii_is_digit(text.ptr[i])) {
            uint32_t digit = (uint32_t)(text.ptr[i] - '0') << (digits & 1U);
            sum += digit > 9 ? digit - 9 : digit;
            digits++;
        }
    }
    return digits >= CARD_LEAST && digits <= CARD_MOST && sum % 10 == 0 &&
           sum != 0;
}

/* The check digits of an account's number (ISO 13616): its first four signs
 * behind the rest, letters as 10 to 35, leave 1 when divided by 97. */
static bool
is_iban(struct slice text)
{
    char signs[IBAN_MOST];
    uint32_t count = 0;
    uint32_t rest = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != ' ') {
            if (count == IBAN_MOST) {
                return false;
            }
            signs[count++] = ascii_lower(text.ptr[i]);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        char sign = signs[(i + 4) % count];
        rest = ascii_is_digit(sign)
                   ? (rest * 10 + (uint32_t)(sign - '0')) % 97
                   : (rest * 100 + (uint32_t)(sign - 'a') + 10) % 97;
    }
    return count >= IBAN_LEAST && rest == 1;
}

/* Whether the pattern finds something that is good. 1, 0, or -1: too hard. */
static int
find(const struct content_regex *regex, struct content_matcher *matcher,
     struct slice text, bool (*is_good)(struct slice found))
{
    struct slice found;
    int outcome = 0;

    for (uint32_t i = 0; i < CANDIDATES; i++) {
        outcome = content_regex_find(regex, matcher, text, &found);
        if (outcome != 1 || is_good == NULL || is_good(found)) {
            return outcome;
        }
        const char *end = text.ptr + text.len;
        text.ptr = found.ptr + found.len;
        text.len = (size_t)(end - text.ptr);
    }
    return 0;
}

static bool
begins(struct slice line, const char *with)
{
    size_t len = strlen(with);

    return line.len > len && memcmp(line.ptr, with, len) == 0;
}

/* Whether a line without blanks around looks like one of a program. */
static bool
is_code_line(struct slice line)
{
    static const char *const starts[] = {
        "def ",     "class ",  "import ",   "from ",    "#include", "return ",
        "func ",    "fn ",     "public ",   "private ", "const ",   "let ",
        "var ",     "static ", "elif ",     "SELECT ",  "INSERT ",  "CREATE ",
        "package ", "using ",  "function ", "async ",   "}",        "@",
    };

    char last = line.ptr[line.len - 1];
    if (last == ';' || last == '{' || last == '}') {
        return true;
    }
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        /* Words begin sentences, too; a sentence has an end. */
        if (begins(line, starts[i]) && last != '.' && last != '?') {
            return true;
        }
    }
    return last == ':' && (begins(line, "if ") || begins(line, "for ") ||
                           begins(line, "while ") || begins(line, "else") ||
                           begins(line, "try") || begins(line, "with "));
}

static bool
has_code(struct slice text)
{
    uint32_t lines = 0;
    uint32_t code = 0;

    if (text.len == 0) {
        return false;
    }
    if (memmem(text.ptr, text.len, "```", 3) != NULL) {
        return true;
    }
    while (text.len != 0) {
        struct slice line = slice_trim(slice_take(&text, '\n'));
        if (line.len != 0) {
            lines++;
            code += is_code_line(line);
        }
    }
    return code >= CODE_LINES && code * 100 >= lines * CODE_PERCENT;
}

uint32_t
content_things_in(const struct content_things *things,
                  struct content_matcher *matcher, struct slice text,
                  uint32_t wanted, uint32_t *too_hard)
{
    uint32_t has = 0;

    if ((wanted & 1U << CONTENT_CODE) != 0 && has_code(text)) {
        has |= 1U << CONTENT_CODE;
    }
    for (size_t i = 0; i < CONTENT_THINGS; i++) {
        if (things->regex[i] == NULL || (wanted & 1U << i) == 0) {
            continue;
        }
        int found = find(things->regex[i], matcher, text,
                         i == CONTENT_CARD   ? is_card
                         : i == CONTENT_IBAN ? is_iban
                                             : NULL);
        has |= found == 1 ? 1U << i : 0;
        *too_hard += found < 0;
    }
    return has;
}
