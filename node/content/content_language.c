/* The language of a text: its script, or else its commonest words. */
#include <string.h>

#include "index/base/ascii.h"
#include "index/base/check.h"
#include "node/content/content.h"

#define WORD_MAX  12U  /* bytes */
#define WORDS_MAX 400U /* of a text; the rest tells nothing new */
#define LEAST     2U   /* points of a language, or it is not told */

enum script {
    LATIN,
    HAN,
    KANA,
    HANGUL,
    CYRILLIC,
    GREEK,
    ARABIC,
    HEBREW,
    DEVANAGARI,
    THAI,
    VIETNAMESE, /* Latin letters that no other language has */
    SCRIPTS,
};

const char *
content_language_name(enum content_language language)
{
    static const char *const names[] = {
        "unknown", "ar", "de", "el", "en", "es", "fr", "he", "hi", "it",
        "ja",      "ko", "pl", "pt", "ro", "ru", "th", "tr", "vi", "zh",
    };
    _Static_assert(sizeof names / sizeof names[0] == CONTENT_LANGUAGES, "all");

    CHECK(language < CONTENT_LANGUAGES);
    return names[language];
}

static const struct range {
    uint32_t first, last;
    enum script script;
} ranges[] = {
    {'A', 'Z', LATIN},          {'a', 'z', LATIN},
    {0xC0, 0x24F, LATIN},       {0x370, 0x3FF, GREEK},
    {0x400, 0x52F, CYRILLIC},   {0x590, 0x5FF, HEBREW},
    {0x600, 0x6FF, ARABIC},     {0x750, 0x77F, ARABIC},
    {0x900, 0x97F, DEVANAGARI}, {0xE00, 0xE7F, THAI},
    {0x1100, 0x11FF, HANGUL},   {0x1EA0, 0x1EF9, VIETNAMESE},
    {0x3040, 0x30FF, KANA},     {0x3400, 0x9FFF, HAN},
    {0xAC00, 0xD7AF, HANGUL},   {0x20000, 0x323AF, HAN},
};

/* The script of a letter; SCRIPTS: it is none of these. */
static enum script
script_of(uint32_t letter)
{
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (letter >= ranges[i].first && letter <= ranges[i].last) {
            return ranges[i].script;
        }
    }
    return SCRIPTS;
}

/* The next character of a well-formed text; it is taken off. */
static uint32_t
next_letter(struct slice *text)
{
    const uint8_t *p = (const uint8_t *)text->ptr;
    uint32_t letter = p[0];
    size_t more = letter < 0x80 ? 0 : letter < 0xE0 ? 1 : letter < 0xF0 ? 2 : 3;

    CHECK(more < text->len);
    letter &= more == 0 ? 0x7FU : 0x3FU >> more;
    for (size_t i = 1; i <= more; i++) {
        letter = letter << 6 | (p[i] & 0x3FU);
    }
    slice_skip(text, more + 1);
    return letter;
}

/* Words that most sentences of a language have, and few of its neighbours'; and
 * letters of the same kind. */
static const struct {
    enum content_language language;
    const char *letters;
    const char *words;
} common[] = {
    {CONTENT_DE, "äöüÄÖÜß",
     " der die das und ist nicht ein eine einer einem den dem des mit von zu "
     "zum zur auf im am wie was ich sie es wird werden für welche welcher "
     "welches wer wann wo warum wurde wurden war hat haben viele nach bei aus "
     "über oder auch sich als durch "},
    {CONTENT_EN, "",
     " the and of to in is that what for with are how you this was were which "
     "it on by who did does do as at be from when where why many much has had "
     "have an or not your my can "},
    {CONTENT_ES, "ñÑ",
     " el la los las de del que y en es por para una con se qué cómo su cuál "
     "quién fue como más son al cuándo dónde cuántos cuántas cuáles era entre "
     "este esta hay está lo "},
    {CONTENT_FR, "êèœùûÊÈ",
     " le la les des du de et est que qui une pour dans pas sur au aux quel "
     "quelle quels je vous il elle ce cette sont par avec été où quand "
     "comment combien pourquoi était "},
    {CONTENT_IT, "èìò",
     " il la lo di che è per una non con sono del della dei delle gli le i nel "
     "nella "
     "come cosa quale quali quando dove chi un alla più da ha perché quanto "},
    {CONTENT_PL, "ąćęłńśźżĄĆĘŁŃŚŹŻ",
     " i w na jest nie się z do co jak czy to że są przez dla od jaki jaka "
     "jakie "
     "kto kiedy gdzie ile oraz po "},
    {CONTENT_PT, "ãõÃÕ",
     " o a os as de do da dos das que não uma um para com em no na nos é são "
     "você como qual quem foi ao mais quando onde quantos por pelo pela "},
    {CONTENT_RO, "ăĂșȘțȚşţ",
     " și în de la este care cu pe din pentru o un ce a al ale sunt cine fost "
     "mai nu unde când cât cum dintre "},
    {CONTENT_TR, "ğĞıİşŞçÇöÖüÜ",
     " ve bir bu için ile ne olarak da de mi çok nedir kaç hangi hangisi kim "
     "olan en ise değil nerede zaman tarafından sonra kadar göre arasında "
     "neden nasıl kimdir daha "},
    {CONTENT_VI, "đĐ",
     " là và của có được cho không những một các trong người ai gì với đã "
     "nào "},
};

#define COMMON (sizeof common / sizeof common[0])

/* A point to each language that has the word: " WORD " in small letters. */
static void
score_word(const char *word, uint32_t scores[COMMON])
{
    for (size_t i = 0; i < COMMON; i++) {
        scores[i] += strstr(common[i].words, word) != NULL;
    }
}

/* A point to each language that has the letter, and few others have. */
static void
score_letter(const char *letter, size_t len, uint32_t scores[COMMON])
{
    char text[5] = "";

    CHECK(len < sizeof text);
    memcpy(text, letter, len);
    for (size_t i = 0; i < COMMON; i++) {
        scores[i] += strstr(common[i].letters, text) != NULL;
    }
}

static bool
is_latin(uint32_t letter)
{
    enum script script = script_of(letter);

    return script == LATIN || script == VIETNAMESE;
}

/* Writes a word in small letters between blanks; "" for one that is longer than
 * any here. ASCII and Latin-1 have capitals; other ones are left. */
static void
write_small(const char *from, size_t len, char word[WORD_MAX + 3])
{
    word[0] = '\0';
    if (len > WORD_MAX) {
        return;
    }
    word[0] = ' ';
    for (size_t i = 0; i < len; i++) {
        uint8_t byte = (uint8_t)from[i];
        bool capital = i > 0 && (uint8_t)from[i - 1] == 0xC3 && byte >= 0x80 &&
                       byte <= 0x9E && byte != 0x97;
        word[i + 1] = (char)(capital ? byte + 0x20U : byte);
        word[i + 1] = ascii_lower(word[i + 1]);
    }
    word[len + 1] = ' ';
    word[len + 2] = '\0';
}

/* Takes the next word off and gives its points. False: there is none. */
static bool
take_word(struct slice *text, uint32_t scores[COMMON])
{
    char word[WORD_MAX + 3];
    const char *from = NULL;
    const char *end = NULL;

    while (text->len != 0) {
        const char *at = text->ptr;
        if (!is_latin(next_letter(text))) {
            if (from != NULL) {
                break;
            }
            continue;
        }
        from = from != NULL ? from : at;
        end = text->ptr;
        if ((uint8_t)*at >= 0x80) {
            score_letter(at, (size_t)(end - at), scores);
        }
    }
    if (from == NULL) {
        return false;
    }
    write_small(from, (size_t)(end - from), word);
    if (word[0] != '\0') {
        score_word(word, scores);
    }
    return true;
}

static enum content_language
by_words(struct slice text)
{
    uint32_t scores[COMMON] = {0};
    uint32_t best = 0;
    uint32_t second = 0;
    enum content_language language = CONTENT_UNKNOWN;

    for (uint32_t i = 0; i < WORDS_MAX && take_word(&text, scores); i++) {
    }
    for (size_t i = 0; i < COMMON; i++) {
        if (scores[i] > best) {
            second = best;
            best = scores[i];
            language = common[i].language;
        } else if (scores[i] > second) {
            second = scores[i];
        }
    }
    return best >= LEAST && best > second ? language : CONTENT_UNKNOWN;
}

enum content_language
content_language_of(struct slice text)
{
    static const enum content_language of[SCRIPTS] = {
        [HAN] = CONTENT_ZH,    [KANA] = CONTENT_JA,       [HANGUL] = CONTENT_KO,
        [GREEK] = CONTENT_EL,  [CYRILLIC] = CONTENT_RU,   [ARABIC] = CONTENT_AR,
        [HEBREW] = CONTENT_HE, [DEVANAGARI] = CONTENT_HI, [THAI] = CONTENT_TH,
    };
    uint32_t count[SCRIPTS + 1] = {0};
    struct slice left = text;
    enum script most = LATIN;

    while (left.len != 0) {
        count[script_of(next_letter(&left))]++;
    }
    uint32_t latin = count[LATIN] + count[VIETNAMESE];
    /* A sign of Chinese or Japanese is a word of others. */
    uint32_t weight = 1 + latin / 4;
    if (count[KANA] * 10 > count[HAN] && count[KANA] * 4 > weight) {
        return CONTENT_JA;
    }
    if (count[HAN] > weight) {
        return CONTENT_ZH;
    }
    for (uint32_t i = HANGUL; i < VIETNAMESE; i++) {
        most = count[i] > count[most] && count[i] * 2 > latin ? (enum script)i
                                                              : most;
    }
    if (most != LATIN) {
        return of[most];
    }
    return count[VIETNAMESE] * 20 > latin ? CONTENT_VI : by_words(text);
}
