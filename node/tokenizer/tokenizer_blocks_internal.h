/*
 * What the kernels of tokenizer_words have in common. Each includes this once,
 * behind WORDS_TARGET, the attribute of all functions here, and
 *
 *   PART                                how many bytes it looks at at once
 *   part load_part(const char *)
 *   uint64_t bytes_in(part, low, count) a bit for each byte from low on
 *   uint64_t bytes_of(part, byte)       a bit for each such byte
 *
 * Of 64 bytes all beginnings of words are found at once, as bits: what begins a
 * word follows from a byte's kind and its neighbours'. What else is beyond ASCII,
 * and what the bits do not tell (four digits in a row, blanks between two ends of
 * lines), stops a block: the word before it, which may end otherwise because of
 * it, and the one with it are left to the scanner. Each block begins where a word
 * does, so nothing is carried from one to the next.
 *
 * Words are found first and looked up later, some hundred at a time: the table's
 * memory is on its way meanwhile, and each of the two loops is short.
 */
#include "node/tokenizer/tokenizer_cache_internal.h"
#include "node/tokenizer/tokenizer_words_internal.h"

#define BLOCK     64U
#define KEY_BYTES 16U /* that are read of a word, whatever its length */
#define FOUND_MAX 192U
#define TAIL      (BLOCK + KEY_BYTES)

/* The bytes of a block by kind: a bit for each, the first byte's the lowest. */
struct block_kinds {
    uint64_t letters;
    uint64_t digits;
    uint64_t blanks; /* the character itself */
    uint64_t tabs;   /* other white space, ends of lines left out */
    uint64_t lines;  /* \n, \r */
    uint64_t signs;  /* all else */
    uint64_t quotes; /* the apostrophes among them */
    uint64_t threes; /* first bytes of signs of three bytes */
    uint64_t beyond; /* not ASCII, and none of the others */
    uint64_t han;    /* DeepSeek's Chinese, letters as well */
    uint64_t capitals;
    uint64_t slashes; /* both for o200k */
};

/*
 * What most of Chinese is made of, and typographers' signs. U+4E00 to U+9FFF are
 * letters (without a case: beyond, for o200k; for DeepSeek up to U+9F7F, to have
 * all of its Chinese and nothing else). Signs are U+2010
 * to U+2027 (quotes, dashes), U+3001 to U+3004 and U+3008 to U+3020 (stops,
 * brackets), U+FF01 to U+FF0F and U+FF1A to U+FF20. A sign that does not end in
 * the block stays beyond.
 */
WORDS_TARGET static inline void
kinds_of_threes(struct block_kinds *k, const char *block, tok_scan *scan)
{
    /* First bytes; then others. */
    uint64_t e2 = 0;
    uint64_t e3 = 0;
    uint64_t e4 = 0;
    uint64_t ef = 0;
    uint64_t han = 0;
    uint64_t e9 = 0;
    uint64_t second_80 = 0;
    uint64_t second_be = 0;
    uint64_t second_b8 = 0;
    uint64_t second_bc = 0;
    uint64_t third_e2 = 0;
    uint64_t third_e3 = 0;
    uint64_t third_ef = 0;

    for (unsigned i = 0; i < BLOCK; i += PART) {
        part bytes = load_part(block + i);
        e2 |= bytes_of(bytes, 0xe2) << i;
        e3 |= bytes_of(bytes, 0xe3) << i;
        e4 |= bytes_of(bytes, 0xe4) << i;
        ef |= bytes_of(bytes, 0xef) << i;
        han |= bytes_in(bytes, 0xe5, 5) << i;
        if (scan == scan_deepseek) {
            e9 |= bytes_of(bytes, 0xe9) << i;
            second_be |= bytes_in(bytes, 0xbe, 2) << i;
        }
        second_80 |= bytes_of(bytes, 0x80) << i;
        second_b8 |= bytes_in(bytes, 0xb8, 8) << i;
        second_bc |= bytes_of(bytes, 0xbc) << i;
        third_e2 |= bytes_in(bytes, 0x90, 0x18) << i;
        third_e3 |= (bytes_in(bytes, 0x81, 4) | bytes_in(bytes, 0x88, 0x19))
                    << i;
        third_ef |= (bytes_in(bytes, 0x81, 0xf) | bytes_in(bytes, 0x9a, 7))
                    << i;
    }
    uint64_t signs = (e2 & second_80 >> 1 & third_e2 >> 2) |
                     (e3 & second_80 >> 1 & third_e3 >> 2) |
                     (ef & second_bc >> 1 & third_ef >> 2);
    uint64_t letters = scan == scan_o200k ? 0 : han | (e4 & second_b8 >> 1);
    letters &= ~(e9 & second_be >> 1);
    k->threes = signs;
    signs |= signs << 1 | signs << 2;
    letters |= letters << 1 | letters << 2;
    k->han = letters;
    k->signs |= signs;
    k->letters |= letters;
    k->beyond &= ~(signs | letters);
}

WORDS_TARGET static inline struct block_kinds
kinds_of(const char *block, tok_scan *scan)
{
    struct block_kinds k = {0};
    uint64_t breaks = 0;

    for (unsigned i = 0; i < BLOCK; i += PART) {
        part bytes = load_part(block + i);
        k.letters |= (bytes_in(bytes, 'a', 26) | bytes_in(bytes, 'A', 26)) << i;
        k.digits |= bytes_in(bytes, '0', 10) << i;
        k.blanks |= bytes_of(bytes, ' ') << i;
        breaks |= bytes_in(bytes, '\t', 5) << i;
        k.lines |= (bytes_of(bytes, '\n') | bytes_of(bytes, '\r')) << i;
        k.quotes |= bytes_of(bytes, '\'') << i;
        k.beyond |= bytes_in(bytes, 0x80, 0x80) << i;
        if (scan == scan_deepseek) { /* no signs to it */
            k.beyond |= (bytes_in(bytes, 0, '\t') | bytes_in(bytes, 0xe, 0x12) |
                         bytes_of(bytes, 0x7f))
                        << i;
        }
        if (scan == scan_o200k) {
            k.capitals |= bytes_in(bytes, 'A', 26) << i;
            k.slashes |= bytes_of(bytes, '/') << i;
        }
    }
    k.tabs = breaks & ~k.lines;
    k.signs = ~(k.letters | k.digits | k.blanks | breaks | k.beyond);
    if (k.beyond != 0) {
        kinds_of_threes(&k, block, scan);
    }
    return k;
}

/* Words found, and not looked up yet. */
struct found {
    size_t count;
    struct cache_short words[FOUND_MAX + BLOCK];
    char tail[TAIL + BLOCK]; /* a copy of the text's end */
};

/* 's and the like at those quotes, which begin a word: in o200k they are a part
 * of the letters before them. */
WORDS_TARGET static inline uint64_t
with_contractions(struct slice text, size_t at, const struct block_kinds *k,
                  tok_scan *scan, uint64_t quotes, uint64_t starts)
{
    unsigned past = 0; /* the last one */

    for (; quotes != 0; quotes &= quotes - 1) {
        unsigned from = (unsigned)__builtin_ctzll(quotes);
        unsigned len =
            (unsigned)scan_contraction(text, at + from, scan != scan_gpt2);
        bool joins = (k->letters << 1 >> from & 1) != 0 && from != past;
        if (len == 0 || (scan == scan_o200k && !joins)) {
            continue;
        }
        starts &= ~(((UINT64_C(1) << len) - 1) << from);
        if (scan != scan_o200k) {
            starts |= UINT64_C(1) << from;
        }
        past = from + len;
        if (past < BLOCK) {
            starts |= UINT64_C(1) << past;
        }
    }
    return starts;
}

/* Letters that begin a word besides. To DeepSeek's last pattern numbers and
 * Chinese are not a part of its text: *ends gets where they begin. Of signs only
 * those of ASCII go with letters. */
WORDS_TARGET static inline uint64_t
deepseek_letters(const struct block_kinds *k, uint64_t signs, uint64_t *ends)
{
    uint64_t chinese = k->han & ~(k->han << 1);

    *ends |= k->digits | chinese;
    return chinese | (k->letters & ~k->han & k->han << 1) |
           (k->letters & (signs & k->threes) << 3);
}

/*
 * Where words begin in a block, of those whose beginning is certain; the first
 * byte is one. `x << 1` says that an x is before. *whole: nothing stops the block.
 */
WORDS_TARGET static inline uint64_t
starts_of(struct slice text, size_t at, const struct block_kinds *k,
          tok_scan *scan, bool *whole)
{
    uint64_t stop = k->beyond | UINT64_C(1) << (BLOCK - 1);
    uint64_t after_letter = k->letters << 1;
    uint64_t after_digit = k->digits << 1;
    uint64_t after_blank = k->blanks << 1;
    uint64_t after_sign = k->signs << 1;
    /* A blank goes with the signs (and in gpt2 the digits) behind it; with the
     * letters in all. */
    uint64_t signs = k->signs & ~after_sign & ~after_blank;
    uint64_t spaces = (k->blanks | k->tabs) & ~stop;
    uint64_t lines = k->lines;
    /* Behind several signs. */
    uint64_t after_signs =
        after_sign & ~((signs & ~k->threes) << 1 | (signs & k->threes) << 3);
    uint64_t ends = k->lines; /* of what blanks are a part of */
    uint64_t letters;
    uint64_t digits;

    if (scan == scan_gpt2) {
        letters = k->letters & ~after_letter & ~after_blank;
        digits = k->digits & ~after_digit & ~after_blank;
        spaces |= lines & ~stop;
        lines = 0;
        /* Of several the last one goes with what is behind them. */
        spaces &= ~(spaces << 1) | ~(spaces >> 1);
    } else {
        /* A sign that begins a word by itself goes with the letters behind it,
         * if it is the only one. */
        letters = k->letters & (after_digit | lines << 1 | after_signs);
        digits = k->digits;
        if (scan == scan_deepseek) {
            letters |= deepseek_letters(k, signs, &ends);
        }
        if (scan != scan_qwen2) { /* three at most, and no need to count */
            digits &= ~after_digit;
            stop |=
                k->digits & after_digit & after_digit << 1 & after_digit << 2;
        }
        /* Ends of lines behind signs go with them: the sum carries through
         * such a run and clears it. */
        uint64_t joined = lines & ~(lines + (lines & after_sign));
        lines &= ~joined;
        if (scan == scan_o200k) {
            letters |= k->capitals & after_letter & ~(k->capitals << 1);
            stop |= joined << 1 & k->slashes; /* goes with them, too */
        }
        /* Between ends of lines, spaces begin nothing: found by a carry from
         * their first one to what is behind them. */
        uint64_t between = spaces & ~(spaces << 1) & lines << 1;
        uint64_t bridged = (spaces + between) & ~spaces & (k->lines | stop);
        if (UNLIKELY(bridged != 0)) {
            between &= (bridged & (0 - bridged)) - 1;
            stop |= UINT64_C(1) << (63 - (unsigned)__builtin_clzll(between));
        }
        lines &= ~((spaces | lines) << 1);
        spaces &= ~(spaces << 1) | (~(spaces >> 1) & ~(ends >> 1));
    }
    uint64_t starts = letters | digits | signs | spaces | lines;

    if (scan != scan_deepseek) {
        uint64_t quotes = k->quotes & signs & ((stop & (0 - stop)) - 1);
        starts = with_contractions(text, at, k, scan, quotes, starts);
    }
    /* A blank's beginning depends on the byte behind it. */
    unsigned end = (unsigned)__builtin_ctzll(stop);
    uint64_t certain = end > 1 ? ~UINT64_C(0) >> (65 - end) : 0;

    *whole = end == BLOCK - 1;
    return (starts & certain) | 1;
}

/* Keeps what was found for later; KEY_BYTES from ptr can be read. */
WORDS_TARGET static inline void
find_word(struct found *found, struct word_cache *cache,
          struct cache_entry *shorts, const char *ptr, size_t len)
{
    struct cache_short *word = &found->words[found->count++];

    word->ptr = ptr;
    if (LIKELY(len <= CACHE_SHORT_BYTES)) {
        cache_key(ptr, len, word->key);
        cache_find(shorts, word);
    } else {
        cache_find_long(cache, word, len);
    }
}

/* Finds the words that begin in text[at, until); where the next one begins.
 * `from` has the bytes of the text from text[at] on, and TAIL more than that. */
WORDS_TARGET static inline size_t
find_words(struct tokenizer_scratch *s, struct found *found, struct slice text,
           size_t at, size_t until, const char *from, tok_scan *scan)
{
    const struct tok_classes *classes = s->tokenizer->classes;
    struct cache_entry *shorts = cache_shorts(s->cache);
    const char *block = from;

    while (at < until) {
        bool whole = false;
        size_t taken = 0;
        if ((uint8_t)block[0] < 0x80 || (uint8_t)block[0] >= 0xe2) {
            struct block_kinds kinds = kinds_of(block, scan);
            uint64_t starts = starts_of(text, at, &kinds, scan, &whole);
            while ((starts &= starts - 1) != 0) {
                size_t to = (unsigned)__builtin_ctzll(starts);
                find_word(found, s->cache, shorts, block + taken, to - taken);
                taken = to;
            }
        }
        at += taken;
        block += taken;
        if (!whole || taken == 0) {
            size_t len = scan(classes, text, at) - at;
            find_word(found, s->cache, shorts, block, len);
            at += len;
            block += len;
        }
        if (found->count >= FOUND_MAX) {
            cache_emit_all(s, found->words, found->count);
            found->count = 0;
            if (s->fault != TOKENIZER_OK) {
                return text.len;
            }
        }
    }
    return at;
}

WORDS_TARGET static inline void
run_with(struct tokenizer_scratch *s, struct slice text, tok_scan *scan)
{
    struct found found;
    size_t at = 0;

    found.count = 0;
    if (text.len > TAIL) {
        at = find_words(s, &found, text, 0, text.len - TAIL, text.ptr, scan);
    }
    if (at < text.len) {
        size_t left = text.len - at;
        memcpy(found.tail, text.ptr + at, left);
        memset(found.tail + left, 0x80, sizeof found.tail - left);
        at = find_words(s, &found, text, at, text.len, found.tail, scan);
    }
    if (s->fault == TOKENIZER_OK) {
        cache_emit_all(s, found.words, found.count);
    }
}

/* Made for each scanner so that it is inlined. */
WORDS_TARGET static void
run(struct tokenizer_scratch *s, struct slice text, tok_scan *scan)
{
    if (scan == scan_gpt2) {
        run_with(s, text, scan_gpt2);
    } else if (scan == scan_o200k) {
        run_with(s, text, scan_o200k);
    } else if (scan == scan_qwen2) {
        run_with(s, text, scan_qwen2);
    } else if (scan == scan_deepseek) {
        run_with(s, text, scan_deepseek);
    } else {
        run_with(s, text, scan_cl100k);
    }
}
