/*
 * What the files of node/tokenizer share: the parts of a tokenizer, each loaded
 * and run by a file of its own.
 *
 * Role: core. Owns: see struct tokenizer. Thread: constant after the load.
 */
#ifndef NODE_TOKENIZER_INTERNAL_H
#define NODE_TOKENIZER_INTERNAL_H

#include "node/tokenizer/tokenizer.h"
#include "node/tokenizer/tokenizer_class_internal.h"
#include "node/tokenizer/tokenizer_load_internal.h"
#include "node/tokenizer/tokenizer_regex_internal.h"
#include "node/tokenizer/tokenizer_vocab_internal.h"

#define TOK_STAGES_MAX 32 /* normalisers, pre-tokenizers, decoders */

/* What becomes of the matches of a pattern. */
enum tok_split {
    TOK_SPLIT_REMOVED,
    TOK_SPLIT_ISOLATED,
    TOK_SPLIT_WITH_PREVIOUS,
    TOK_SPLIT_WITH_NEXT,
    TOK_SPLIT_CONTIGUOUS,
};

/* ---- models ---- */

/* Two symbols that become one. */
struct bpe_merge {
    uint32_t left;
    uint32_t right; /* TOK_NONE: a free slot */
    uint32_t rank;  /* the smallest goes first */
    uint32_t id;    /* what they become */
};

struct bpe_pair {
    uint32_t rank; /* TOK_NONE: they do not merge */
    uint32_t id;
};

/* Which characters some merge joins: tokenizer_bpe_gaps.c. */
struct bpe_gaps {
    uint64_t *bridges;   /* pairs of characters; NULL: no gap is looked for */
    uint64_t mask;       /* open addressing */
    uint64_t *filter;    /* bits by their hash: 0 where there is no bridge */
    unsigned shift;      /* of a hash, to a bit of the filter */
    uint8_t parts[8192]; /* a bit for each pair of bytes */
};

/* Characters of three bytes. */
#define BPE_CHARS_FIRST 0x800U
#define BPE_CHARS       (0x10000U - BPE_CHARS_FIRST)

struct bpe {
    struct bpe_merge *merges; /* open addressing */
    uint64_t merges_mask;
    struct bpe_pair *bytes; /* folded: [first byte << 8 | second] */
    uint32_t byte_id[256];  /* folded: of each byte; else of ASCII */
    uint32_t fallback[256]; /* the tokens <0x00> to <0xFF>, TOK_NONE */
    uint32_t unk;           /* TOK_NONE: none in the vocabulary */
    struct slice prefix;    /* of symbols that do not start a word */
    struct slice suffix;    /* of a symbol that ends one */
    bool folded;  /* words are bytes and not their byte-level characters */
    bool has_unk; /* the file names one */
    bool fuse_unk;
    bool byte_fallback;
    bool whole_word; /* a word in the vocabulary is taken as it is */
    bool cuts;       /* words may be cut before the metaspace, see bpe_cuts */
    bool glued[256]; /* but not after a character that ends in this byte */
    struct bpe_gaps gaps; /* folded */
    uint32_t *chars;      /* with gaps: the token of each of BPE_CHARS that
                           * its bytes become before anything else, TOK_NONE */
};

struct unigram {
    double *scores;         /* by id */
    struct trie_node *trie; /* see tokenizer_unigram.c */
    double unk_score;
    uint32_t unk; /* TOK_NONE: none */
    uint32_t fallback[256];
    bool byte_fallback;
};

struct wordpiece {
    struct slice prefix;
    uint32_t unk; /* TOK_NONE: none in the vocabulary */
    size_t chars_max;
};

enum tok_model {
    TOK_BPE,
    TOK_UNIGRAM,
    TOK_WORDPIECE,
    TOK_WORDLEVEL,
};

/* ---- added tokens ---- */

struct added_token {
    struct slice text;    /* as in the file */
    struct slice matched; /* what is looked for: normalised when it says so */
    uint32_t id;
    bool single_word;
    bool lstrip;
    bool rstrip;
    bool normalized;
    bool special;
    bool cut; /* the text may be cut after it */
};

/* Tokens to look for in a text, sorted by their bytes. */
struct added_set {
    const struct added_token **tokens;
    uint32_t count;
    uint32_t first[257]; /* where those with each first byte begin */
    bool starts[256];    /* some token begins with this byte */
    bool one_start;      /* all tokens begin with one byte */
};

struct added {
    struct added_token *tokens;
    uint32_t count;
    struct added_set raw;        /* looked for before the normaliser */
    struct added_set normalized; /* and after it */
};

/* ---- normalisers ---- */

enum norm_kind {
    NORM_NFC,
    NORM_NFD,
    NORM_NFKC,
    NORM_NFKD,
    NORM_PREPEND,
    NORM_REPLACE,
    NORM_LOWERCASE,
    NORM_STRIP_ACCENTS,
    NORM_STRIP,
    NORM_BERT,
    NORM_CHARSMAP,
    NORM_NMT,
    NORM_BYTE_LEVEL,
};

struct norm_stage {
    enum norm_kind kind;
    struct slice text; /* prepended, or what a match becomes */
    struct slice find; /* NORM_REPLACE: of a string */
    struct tok_regex *regex;
    const uint32_t *trie; /* NORM_CHARSMAP */
    size_t trie_count;
    struct slice mapped;
    bool left, right;                        /* NORM_STRIP */
    bool clean, chinese, accents, lowercase; /* NORM_BERT */
};

/* ---- pre-tokenizers ---- */

enum pre_kind {
    PRE_BYTE_LEVEL,
    PRE_SPLIT_TEXT,
    PRE_SPLIT_REGEX,
    PRE_METASPACE,
    PRE_DIGITS,
    PRE_PUNCTUATION,
    PRE_WHITESPACE,
    PRE_WHITESPACE_SPLIT,
    PRE_BERT,
    PRE_FIXED_LENGTH,
};

enum metaspace_prepend {
    METASPACE_ALWAYS,
    METASPACE_FIRST,
    METASPACE_NEVER,
};

struct pre_stage {
    enum pre_kind kind;
    enum tok_split split;
    bool invert;
    bool prefix_space; /* PRE_BYTE_LEVEL */
    bool words;        /* PRE_BYTE_LEVEL: cuts by the pattern of GPT-2 */
    bool pieces;       /* PRE_METASPACE: cuts before each */
    enum metaspace_prepend prepend;
    struct slice text; /* PRE_SPLIT_TEXT; PRE_METASPACE's character */
    struct tok_regex *regex;
    size_t length; /* PRE_FIXED_LENGTH, characters */
};

/* ---- after the model ---- */

struct post {
    uint32_t *before; /* ids, in order */
    size_t before_count;
    uint32_t *after;
    size_t after_count;
    size_t truncate; /* ids at most; SIZE_MAX: never */
    bool truncate_left;
};

enum decode_kind {
    DECODE_BYTE_LEVEL,
    DECODE_RAW, /* tokens are bytes: only broken UTF-8 is replaced */
    DECODE_REPLACE,
    DECODE_BYTE_FALLBACK,
    DECODE_FUSE,
    DECODE_STRIP,
    DECODE_METASPACE,
    DECODE_WORDPIECE,
    DECODE_BPE,
};

struct decode_stage {
    enum decode_kind kind;
    struct slice find;
    struct slice text;
    size_t start, stop; /* DECODE_STRIP */
    bool cleanup;       /* DECODE_WORDPIECE */
    bool keep_first;    /* DECODE_METASPACE: never prepended */
    struct tok_regex *regex;
};

/* ---- the whole ---- */

struct tokenizer {
    struct tok_memory memory;
    const struct tok_classes *classes;
    struct tok_regex *regexes; /* all of them */
    struct vocab vocab;
    enum tok_model model;
    union {
        struct bpe bpe;
        struct unigram unigram;
        struct wordpiece wordpiece;
    };
    struct added added;
    struct norm_stage norms[TOK_STAGES_MAX];
    size_t norms_count;
    struct pre_stage pres[TOK_STAGES_MAX];
    size_t pres_count;
    struct post post;
    struct decode_stage decodes[TOK_STAGES_MAX];
    size_t decodes_count;
    bool decode_joins;   /* no decoder: tokens with a space between them */
    struct slice *shown; /* by id, added tokens included: what is decoded */
    bool *special;       /* by id */
    uint32_t ids_end;    /* of both */
};

/* A run of the text in work. */
struct tok_piece {
    uint32_t start;
    uint32_t len;
    bool first; /* it begins where the whole text does */
};

struct tok_pieces {
    struct tok_piece *ptr;
    size_t count;
    size_t room;
};

/* Symbols of one word in work. */
struct bpe_work {
    struct bpe_symbol *symbols;
    struct bpe_heap_entry *heap;
    size_t room;
};

struct word_cache;   /* see tokenizer_cache.c */
struct words_kernel; /* see tokenizer_words_internal.h */

struct tokenizer_scratch {
    const struct tokenizer *tokenizer;
    struct tok_matcher *matcher; /* for patterns */
    struct word_cache *cache;
    const struct words_kernel *kernel;
    struct bpe_work bpe;
    struct buf valid;   /* the text with U+FFFD */
    struct buf norm[2]; /* before and after a normaliser */
    struct buf pre[2];  /* before and after a pre-tokenizer that rewrites */
    struct tok_pieces pieces[2];
    struct buf best;           /* Unigram: the best path to each byte */
    struct buf word;           /* WordPiece: a prefix and what follows */
    struct tokenizer_ids *ids; /* of the call in work */
    int fault;                 /* the first outcome other than OK */
};

/* Loading, each from its part of the file. False: load->why says it. */
bool bpe_load(struct tok_load *load, const struct tok_model_parts *model);
bool unigram_load(struct tok_load *load, const struct tok_model_parts *model);
bool wordpiece_load(struct tok_load *load, const struct tok_model_parts *model);
bool added_load(struct tok_load *load, struct slice tokens);
bool norm_load(struct tok_load *load, struct slice normalizer);
bool pre_load(struct tok_load *load, struct slice pre_tokenizer);
bool post_load(struct tok_load *load, struct slice post_processor,
               struct slice truncation);
bool decode_load(struct tok_load *load, struct slice decoder);

/* Makes the merges of a BPE from its ranks: tokens are bytes, ranks are ids. */
bool bpe_from_ranks(struct tok_load *load);

/* Room for `count` merges. */
bool bpe_merges_room(struct tok_load *load, size_t count);

/* Sets what two symbols become; the last call for a pair counts. */
void bpe_merge_set(struct bpe *bpe, struct bpe_merge merge);

/* Turns a BPE into one over bytes, when nothing else than the ByteLevel stage
 * at the end sees the characters that stand for them. */
bool bpe_fold(struct tok_load *load);

/* Finds out where long words may be cut. */
bool bpe_find_cuts(struct tok_load *load);

/* Finds which characters merges join. keys: the bytes of each token, by id. */
bool bpe_find_gaps(struct tok_load *load, const struct slice *keys);

/* Finds which of BPE_CHARS need not be merged from their bytes. */
bool bpe_find_chars(struct tok_load *load);

/* The next place in a word of bytes, after from, that no merge bridges; it
 * depends on nothing before from, which is such a place itself or the word's
 * start. word.len: there is none. */
size_t bpe_gap(const struct bpe *bpe, struct slice word, size_t from);

/* Whether some merge joins a token that ends in the first byte with one that
 * begins with the second, and one of the two has only a part of its character
 * there. */
static inline bool
bpe_parts(const struct bpe *bpe, uint8_t before, uint8_t behind)
{
    unsigned pair = (unsigned)before << 8 | behind;

    return (bpe->gaps.parts[pair / 8] >> pair % 8 & 1) != 0;
}

/* Lists the tokens by id for decoding, when all are known. */
bool decode_finish(struct tok_load *load);

/* Prepares the sets of added tokens once the normaliser is there. */
bool added_finish(struct tok_load *load);

/* Takes the next added token of the set from text[*at, ...): true, with the run
 * of text it covers, spaces that it strips included. */
struct added_match {
    const struct added_token *token;
    size_t start;
    size_t end;
};
bool added_next(const struct tokenizer *t, const struct added_set *set,
                struct slice text, size_t *at, size_t taken,
                struct added_match *match);

/* Normalises a text: the result is borrowed from the scratch, or is the text
 * itself. *first is cleared when its first character went. */
struct slice norm_run(struct tokenizer_scratch *s, struct slice text,
                      bool *first);

/* Compositions and decompositions of Unicode: appends to out. */
void norm_unicode(struct tokenizer_scratch *s, struct slice text,
                  enum norm_kind kind, struct buf *out);

/* Whether the text is certainly composed already. */
bool norm_is_nfc(const struct tok_classes *classes, struct slice text);

/* The precompiled map of SentencePiece. */
void norm_charsmap(const struct norm_stage *stage, struct slice text,
                   struct buf *out);
bool norm_charsmap_load(struct tok_load *load, struct slice base64,
                        struct norm_stage *stage);

/* Properties as the library's own tables have them (tokenizer_versions.c). */
bool norm_is_inert(uint32_t c); /* unknown to its compositions */
bool norm_is_mark(uint32_t c);
uint32_t norm_lower(uint32_t c);
bool bert_is_other(uint32_t c);
bool bert_is_punctuation(uint32_t c);
bool bert_is_nonspacing(uint32_t c);

/* Decodes base64 into out, which has room for text.len bytes: the length, or
 * SIZE_MAX when it is none. */
size_t tok_base64(struct slice text, char *out);

/* Cuts a text into words and encodes each. */
void pre_run(struct tokenizer_scratch *s, struct slice text, bool first);

/* The character that stands for a byte in byte-level vocabularies. */
uint32_t byte_level_char(uint8_t byte);

/* Its byte, or -1. */
int byte_level_byte(uint32_t character);

/* Encodes one word with the model; appends ids or sets s->fault. */
void model_word(struct tokenizer_scratch *s, struct slice word);
void bpe_word(struct tokenizer_scratch *s, struct slice word);
void unigram_word(struct tokenizer_scratch *s, struct slice word);
void wordpiece_word(struct tokenizer_scratch *s, struct slice word);

/* A piece of a word of bytes, between two gaps. */
void bpe_piece(struct tokenizer_scratch *s, struct slice piece);

/* Through the cache; the same as bpe_word() and bpe_piece() in their effect. */
void cache_word(struct tokenizer_scratch *s, struct slice word);
void cache_piece(struct tokenizer_scratch *s, struct slice piece);

struct word_cache *cache_new(void);
void cache_free(struct word_cache *cache);

/* Appends ids. */
void tok_emit_many(struct tokenizer_scratch *s, const uint32_t *ids,
                   size_t count);

static inline void
tok_emit(struct tokenizer_scratch *s, uint32_t id)
{
    struct tokenizer_ids *ids = s->ids;

    if (LIKELY(ids->count < ids->room)) {
        ids->ptr[ids->count++] = id;
    } else {
        tok_emit_many(s, &id, 1);
    }
}

/* Bounds what a text of so many bytes may become, and the steps of patterns. */
void tok_scratch_bound(struct tokenizer_scratch *s, size_t len);

/* Makes room for so many, if so many may come. */
bool tok_has_room(struct tokenizer_scratch *s, size_t count);

/* Bytes at the start of a text that are well-formed UTF-8. */
size_t utf8_valid(struct slice text);

/* Bytes that one U+FFFD stands for, where text is not well-formed: the longest
 * start of a character that could have been (Unicode 15 section 3.9), or one
 * byte. */
size_t utf8_broken(struct slice text);

/* Sets the first fault. */
static inline void
tok_fault(struct tokenizer_scratch *s, int fault)
{
    if (s->fault == TOKENIZER_OK) {
        s->fault = fault;
    }
}

#endif
