/* What two questions must have in common. */
#include "node/answers/answers_guard.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/ascii.h"
#include "index/index.h"

#define WORD_MAX  24U  /* bytes of a word that is looked up */
#define QUOTE_MAX 512U /* bytes between quotes; more is no quotation */

/* What an item is, before its bytes. */
enum item {
    ITEM_WORD = 'w',
    ITEM_NUMBER = 'n',
    ITEM_SIGN = 's',
    ITEM_NAME = 'N',
    ITEM_QUOTED = 'q',
    ITEM_CODE = 'c',
};

/* Lists of words by their first letter, each between blanks: usual words, which
 * are no names where a sentence begins. */
static const char *const usual[26] = {
    ['a' - 'a'] = " a about according additionally afternoon afterwards also "
                  "although altogether among an analyse analyze and answer "
                  "anyone apart approximately are around as ask assume assuming"
                  " at ",
    ['b' - 'a'] = " be because been being both but by ",
    ['c' - 'a'] = " calculate can check cheers choose classify come compare "
                  "complete compute consider convert could create currently ",
    ['d' - 'a'] = " day dear define describe design determine did discuss do "
                  "does draft during ",
    ['e' - 'a'] = " estimate evaluate evening eventually everybody everyone "
                  "everything explain express extract ",
    ['f' - 'a'] = " finally find following for fortunately from furthermore ",
    ['g' - 'a'] = " generate give given good got greetings ",
    ['h' - 'a'] = " had has have he he's hello help her here hey hi his how "
                  "how's however ",
    ['i' - 'a'] = " i i'd i'll i'm i've identify if imagine implement in "
                  "including initially instead into is it it's its itself ",
    ['j' - 'a'] = " just ",
    ['k' - 'a'] = " kindly ",
    ['l' - 'a'] = " let let's like likewise list look ",
    ['m' - 'a'] = " madam make many may me meanwhile mine moreover morning ms "
                  "much must my myself ",
    ['n' - 'a'] = " name nevertheless note notice now ",
    ['o' - 'a'] = " of ok okay or otherwise our outline overall ",
    ['p' - 'a'] = " paraphrase perhaps plan please prove provide ",
    ['r' - 'a'] = " rather read recently recommend regardless regards remember "
                  "respond return review rewrite ",
    ['s' - 'a'] = " say says see she should show simplify sincerely sir so "
                  "solve somebody someone something soon specifically still "
                  "such suggest summarise summarize suppose sure ",
    ['t' - 'a'] = " take taking tell than thank thanks that that's the their "
                  "them then there therefore these they they're this those "
                  "though through throughout thus to today's together too "
                  "translate try ",
    ['u' - 'a'] = " unfortunately us use using usually ",
    ['v' - 'a'] = " verify very ",
    ['w' - 'a'] = " want was we we're well were what what'll what's when when's"
                  " whenever where whereas whether which while who whoever whom"
                  " whose why will with word words work would write ",
    ['y' - 'a'] = " yes yet you you're you've your ",
};

/* Words that a meaning turns on, and what is to be done with a text. */
static const char *const turns[26] = {
    ['a' - 'a'] = " above add after against ahead all allow allowed always "
                  "another any ascending average ",
    ['b' - 'a'] = " back backward before behind below best better between "
                  "bigger biggest billion bottom buy ",
    ['c' - 'a'] = " cheaper cheapest classify closed colder compare convert "
                  "critique ",
    ['d' - 'a'] = " daily decode decrease decreases decreasing decrypt deeper "
                  "define denied deny descending describe difference disable "
                  "divide double down"
                  " ",
    ['e' - 'a'] = " each earlier early east either enable encode encrypt equal "
                  "evaluate even every except exclude excluding explain "
                  "export extract ",
    ['f' - 'a'] = " false farther faster fastest few fewer forward front ",
    ['g' - 'a'] = " gain greater ",
    ['h' - 'a'] = " half heavier higher highest horizontal hotter hourly "
                  "how hundred ",
    ['i' - 'a'] = " import include increase increases increasing inside ",
    ['l' - 'a'] = " larger largest last late later least left less lighter "
                  "list longer longest lose loss lost lower lowest ",
    ['m' - 'a'] = " max million min minus monthly more most multiply ",
    ['n' - 'a'] = " negative neither never next no nobody none nor north not "
                  "nothing ",
    ['o' - 'a'] = " odd off older oldest on once only open other outline "
                  "outside over ",
    ['p' - 'a'] = " paraphrase per plus positive profit prove pull push ",
    ['q' - 'a'] = " quarter ",
    ['r' - 'a'] = " receive remaining review rewrite right ",
    ['s' - 'a'] = " same sell send shorter shortest since slower slowest "
                  "simplify smaller smallest south start stop subtract sum "
                  "summarize ",
    ['t' - 'a'] = " taller tallest thousand thrice times today tomorrow top "
                  "total translate triple true twice ",
    ['u' - 'a'] = " under unless until up ",
    ['v' - 'a'] = " vertical ",
    ['w' - 'a'] =
        " weekly west when where who whom whose why wider win within without "
        "won worse worst ",
    ['y' - 'a'] = " yearly yesterday younger youngest ",
};

/* Words that count as others, a number's digits first; sorted. */
static const struct alike {
    const char *word;
    const char *as;
} alike[] = {
    {"aren't", "not"},
    {"arent", "not"},
    {"cannot", "not"},
    {"cant", "not"},
    {"couldnt", "not"},
    {"decreased", "decrease"},
    {"didnt", "not"},
    {"doesnt", "not"},
    {"dont", "not"},
    {"dozen", "12"},
    {"eight", "8"},
    {"eighteen", "18"},
    {"eighth", "8th"},
    {"eighty", "80"},
    {"eleven", "11"},
    {"fifteen", "15"},
    {"fifth", "5th"},
    {"fifty", "50"},
    {"first", "1st"},
    {"five", "5"},
    {"forty", "40"},
    {"four", "4"},
    {"fourteen", "14"},
    {"fourth", "4th"},
    {"hadnt", "not"},
    {"hasnt", "not"},
    {"havent", "not"},
    {"increased", "increase"},
    {"isnt", "not"},
    {"maximum", "max"},
    {"minimum", "min"},
    {"mustnt", "not"},
    {"nine", "9"},
    {"nineteen", "19"},
    {"ninety", "90"},
    {"ninth", "9th"},
    {"one", "1"},
    {"percent", "%"},
    {"second", "2nd"},
    {"seven", "7"},
    {"seventeen", "17"},
    {"seventh", "7th"},
    {"seventy", "70"},
    {"shouldnt", "not"},
    {"six", "6"},
    {"sixteen", "16"},
    {"sixth", "6th"},
    {"sixty", "60"},
    {"summarise", "summarize"},
    {"ten", "10"},
    {"tenth", "10th"},
    {"third", "3rd"},
    {"thirteen", "13"},
    {"thirty", "30"},
    {"three", "3"},
    {"twelve", "12"},
    {"twenty", "20"},
    {"two", "2"},
    {"wasnt", "not"},
    {"werent", "not"},
    {"won't", "not"},
    {"wont", "not"},
    {"wouldnt", "not"},
    {"zero", "0"},
};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

struct guard {
    struct slice text;
    size_t at;
    uint64_t digest;
};

/* Reading */

static unsigned char
byte_at(const struct guard *g, size_t at)
{
    return at < g->text.len ? (unsigned char)g->text.ptr[at] : 0;
}

static bool
is_digit(unsigned char c)
{
    return ascii_is_digit((char)c);
}

static bool
is_upper(unsigned char c)
{
    return c >= 'A' && c <= 'Z';
}

/* Of a word, or of a letter or sign beyond ASCII. */
static bool
is_letter(unsigned char c)
{
    return is_upper(c) || (c >= 'a' && c <= 'z') || is_digit(c) || c >= 0x80 ||
           c == '_';
}

static bool
begins(const struct guard *g, size_t at, const char *sign)
{
    size_t len = strlen(sign);

    return g->text.len - at >= len && memcmp(g->text.ptr + at, sign, len) == 0;
}

/* "'" or the curly one: its bytes; 0: it is none. */
static size_t
apostrophe(const struct guard *g, size_t at)
{
    if (at >= g->text.len) {
        return 0;
    }
    return byte_at(g, at) == '\'' ? 1 : begins(g, at, "\xE2\x80\x99") ? 3 : 0;
}

/* Items */

static void
add(struct guard *g, enum item item, struct slice bytes)
{
    unsigned char kind = (unsigned char)item;

    g->digest = key_next(g->digest, &kind, 1);
    g->digest = key_next(g->digest, bytes.ptr, bytes.len);
}

/* A word with a NUL behind it. */
static bool
has_word(const char *const lists[26], struct slice word)
{
    char between[WORD_MAX + 3];

    if (word.len == 0 || word.ptr[0] < 'a' || word.ptr[0] > 'z' ||
        lists[word.ptr[0] - 'a'] == NULL) {
        return false;
    }
    (void)snprintf(between, sizeof between, " %s ", word.ptr);
    return strstr(lists[word.ptr[0] - 'a'], between) != NULL;
}

static int
by_word(const void *key, const void *row)
{
    return strcmp(key, ((const struct alike *)row)->word);
}

/* A word in lower case; there is room for a NUL behind it. */
static void
judge_word(struct guard *g, char *word, size_t len, bool capital)
{
    struct slice whole = {word, len};
    bool says_no = slice_ends(whole, SLICE("n't"));

    if (slice_ends(whole, SLICE("'s"))) {
        whole.len -= 2;
    }
    word[whole.len] = '\0';
    const struct alike *as =
        bsearch(word, alike, COUNT(alike), sizeof alike[0], by_word);
    if (as != NULL) {
        add(g, ascii_is_digit(as->as[0]) ? ITEM_NUMBER : ITEM_WORD,
            slice_of(as->as));
    } else if (says_no) {
        add(g, ITEM_WORD, SLICE("not"));
    } else if (has_word(turns, whole)) {
        add(g, ITEM_WORD, whole);
    } else if (whole.len == 1 && word[0] != 'a' && word[0] != 'i') {
        add(g, ITEM_NAME, whole); /* of a variable, maybe */
    } else if (capital && !has_word(usual, whole)) {
        add(g, ITEM_NAME, whole);
    }
}

/* How many bytes of what is between letters belong to the word: an apostrophe,
 * and ".", "," and ":" between digits. */
static size_t
joint(const struct guard *g, size_t at)
{
    unsigned char c = byte_at(g, at);
    size_t mark = apostrophe(g, at);

    if (mark != 0) {
        unsigned char next = byte_at(g, at + mark);
        return is_letter(next) && next < 0x80 ? mark : 0;
    }
    return (c == '.' || c == ',' || c == ':') && at != 0 &&
                   is_digit(byte_at(g, at - 1)) && is_digit(byte_at(g, at + 1))
               ? 1
               : 0;
}

/* The bytes of a sign beyond ASCII; 0: it is a letter. */
static size_t
foreign_sign(const struct guard *g, size_t at)
{
    unsigned char c = byte_at(g, at);
    unsigned char next = byte_at(g, at + 1);

    if (c == 0xC2 || (c == 0xC3 && (next == 0x97 || next == 0xB7))) {
        return 2; /* of Latin-1; times, divided by */
    }
    if (c == 0xE2 || (c == 0xE3 && next == 0x80)) {
        return 3; /* punctuation, currencies, arithmetic */
    }
    return c >= 0xF0 ? 4 : 0;
}

/* A comma within a number that parts its thousands. */
static bool
parts_thousands(const struct guard *g, size_t at)
{
    return byte_at(g, at) == ',' && is_digit(byte_at(g, at + 1)) &&
           is_digit(byte_at(g, at + 2)) && is_digit(byte_at(g, at + 3)) &&
           !is_digit(byte_at(g, at + 4));
}

/* The word at g->at; one that is too long to be known is a name, or nothing. */
static void
take_word(struct guard *g)
{
    char word[WORD_MAX + 1];
    size_t from = g->at;
    size_t len = 0;
    bool digits = false;
    /* What begins beyond ASCII is a name, or stands for a word of another
     * language, which is no less what is asked about. */
    bool capital = is_upper(byte_at(g, from)) || byte_at(g, from) >= 0x80;

    while (g->at < g->text.len) {
        unsigned char c = byte_at(g, g->at);
        size_t step =
            is_letter(c) && foreign_sign(g, g->at) == 0 ? 1 : joint(g, g->at);
        if (step == 0) {
            break;
        }
        digits = digits || is_digit(c);
        if (!parts_thousands(g, g->at) && len < WORD_MAX) {
            word[len++] = apostrophe(g, g->at) != 0
                              ? '\''
                              : ascii_lower(g->text.ptr[g->at]);
        }
        g->at += step;
    }
    struct slice whole = {g->text.ptr + from, g->at - from};
    bool cut = len == WORD_MAX;
    struct slice lower = cut ? whole : (struct slice){word, len};
    if (digits) {
        add(g, ITEM_NUMBER, lower);
    } else if (!cut) {
        judge_word(g, word, len, capital);
    } else if (capital) {
        add(g, ITEM_NAME, whole);
    }
}

/* Between two signs, if the second one comes before QUOTE_MAX (of code:
 * anywhere). False: it is no quotation. */
static bool
take_between(struct guard *g, size_t open, struct slice close, enum item item)
{
    size_t from = g->at + open;
    size_t left = g->text.len - from;
    size_t most = item == ITEM_QUOTED && left > QUOTE_MAX ? QUOTE_MAX : left;
    const char *end = memmem(g->text.ptr + from, most, close.ptr, close.len);

    if (end == NULL) {
        return false;
    }
    struct slice within = {g->text.ptr + from,
                           (size_t)(end - g->text.ptr) - from};
    add(g, item, within);
    g->at = from + within.len + close.len;
    return true;
}

/* A single quote opens where a word begins behind it and none ends before. */
static bool
opens_single(const struct guard *g)
{
    unsigned char before = g->at != 0 ? byte_at(g, g->at - 1) : ' ';

    return byte_at(g, g->at) == '\'' && !is_letter(before) &&
           is_letter(byte_at(g, g->at + 1));
}

static bool
take_quoted(struct guard *g)
{
    size_t ticks = 0;

    while (byte_at(g, g->at + ticks) == '`') {
        ticks++;
    }
    if (ticks != 0) {
        struct slice close = {g->text.ptr + g->at, ticks};
        if (!take_between(g, ticks, close, ITEM_CODE)) {
            g->at += ticks; /* all of them: they are not looked at again */
        }
        return true;
    }
    if (byte_at(g, g->at) == '"') {
        return take_between(g, 1, SLICE("\""), ITEM_QUOTED);
    }
    if (begins(g, g->at, "\xE2\x80\x9C")) {
        return take_between(g, 3, SLICE("\xE2\x80\x9D"), ITEM_QUOTED);
    }
    return opens_single(g) && take_between(g, 1, SLICE("'"), ITEM_QUOTED);
}

/* Punctuation and blanks say nothing; signs of money and arithmetic do, letters of
 * formulas, and pictures: to many embedders any of these is the same unknown. */
static void
take_foreign(struct guard *g, size_t len)
{
    unsigned char c = byte_at(g, g->at);
    unsigned char next = byte_at(g, g->at + 1);

    len = len < g->text.len - g->at ? len : g->text.len - g->at;
    if (c != 0xE3 && !(c == 0xE2 && next == 0x80) &&
        !(c == 0xC2 && next == 0xA0)) {
        add(g, ITEM_SIGN, (struct slice){g->text.ptr + g->at, len});
    }
    g->at += len;
}

/* Whether a number begins there: 5, or .5. */
static bool
is_number(const struct guard *g, size_t at)
{
    return is_digit(byte_at(g, at)) ||
           (byte_at(g, at) == '.' && is_digit(byte_at(g, at + 1)));
}

/* Signs that always count, and those that do beside a digit. */
static bool
sign_counts(const struct guard *g)
{
    unsigned char c = byte_at(g, g->at);
    size_t after = g->at + 1;

    switch (c) {
    case '-':
    case '/':
        while (byte_at(g, after) == ' ') {
            after++;
        }
        return is_number(g, after);
    case '.':
        return is_digit(byte_at(g, after));
    case '!':
        return g->at != 0 && is_digit(byte_at(g, g->at - 1));
    case '\0':
        return false;
    default:
        return strchr("%$+*=<>^&|~()[]{}#\\", c) != NULL;
    }
}

static void
take_sign(struct guard *g)
{
    if (sign_counts(g)) {
        add(g, ITEM_SIGN, (struct slice){g->text.ptr + g->at, 1});
    }
    g->at++;
}

uint64_t
answers_guard(struct slice text)
{
    struct guard g = {.text = text};

    while (g.at < text.len) {
        unsigned char c = byte_at(&g, g.at);
        if (take_quoted(&g)) {
            continue;
        }
        size_t sign = foreign_sign(&g, g.at);
        if (sign != 0) {
            take_foreign(&g, sign);
        } else if (is_letter(c)) {
            take_word(&g);
        } else {
            take_sign(&g);
        }
    }
    return g.digest;
}
