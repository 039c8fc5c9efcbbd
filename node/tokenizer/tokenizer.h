/*
 * Turns text into token ids and back, exactly as the Hugging Face `tokenizers`
 * library does, from a model's own tokenizer.json; and as `tiktoken` does, from
 * a .tiktoken file and its pattern.
 *
 * A text passes through five steps, each as the file says: added tokens are cut
 * out; what lies between them is normalised; it is cut into words; the model
 * (BPE, Unigram, WordPiece or WordLevel) turns each word into ids; and special
 * tokens are put around the whole. What is not understood in a file is an error
 * that names it, never a guess.
 *
 * Text is UTF-8. Bytes that are not become U+FFFD first, as Python's
 * bytes.decode(errors="replace") has it.
 *
 * Role: core. Owns: what it builds from the file; the file's bytes are not kept.
 * Thread: a tokenizer is constant once it is made and any number of threads may
 * use it, each with a scratch of its own. Limits: below. Errors: outcomes.
 */
#ifndef NODE_TOKENIZER_H
#define NODE_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"

#define TOKENIZER_FILE_MAX  ((size_t)128 << 20) /* bytes of a file */
#define TOKENIZER_TEXT_MAX  ((size_t)64 << 20)  /* bytes of a text */
#define TOKENIZER_VOCAB_MAX ((uint32_t)1 << 21) /* ids */
#define TOKENIZER_TOKEN_MAX 2048                /* bytes of a token */
#define TOKENIZER_WHY_MAX   256 /* of an error's text, with its NUL */

/* Outcomes of encoding. */
enum {
    TOKENIZER_OK = 0,
    TOKENIZER_E_LONG = 1,    /* the text, or what the normaliser made of it */
    TOKENIZER_E_ROOM = 2,    /* more ids than the caller's bound */
    TOKENIZER_E_MEMORY = 3,  /* out of memory */
    TOKENIZER_E_WORK = 4,    /* a pattern took too many steps */
    TOKENIZER_E_UNKNOWN = 5, /* a character the model has no token for, and
                                the file no unknown token */
};

struct tokenizer;         /* constant; shared by threads */
struct tokenizer_scratch; /* one thread's buffers, and its cache of words */

/* Token ids, growing up to max. The caller zeroes it, sets max, and frees
 * ptr in the end, through tokenizer_ids_fini(). */
struct tokenizer_ids {
    uint32_t *ptr;
    size_t count; /* ids in use; the caller may set it to 0 for another text */
    size_t room;  /* ids allocated */
    size_t max;
};

/* Frees the ids. */
void tokenizer_ids_fini(struct tokenizer_ids *ids);

/* How a text is encoded; flags of tokenizer_encode(). */
enum {
    TOKENIZER_SPECIAL = 1,   /* put the file's special tokens around it */
    TOKENIZER_CONTINUES = 2, /* not the start of the text: the rest after a
                                cut of tokenizer_cut() */
    TOKENIZER_TRUNCATE = 4,  /* as the file says; most say nothing */
};

/*
 * A tokenizer from the bytes of a tokenizer.json, or NULL: then `why`, of
 * TOKENIZER_WHY_MAX bytes, says what is wrong or not understood.
 */
struct tokenizer *tokenizer_new(struct slice json, char *why) MUST_CHECK;

/* A special token beside a .tiktoken file. */
struct tokenizer_special {
    struct slice text;
    uint32_t id;
};

/*
 * A tokenizer from the bytes of a .tiktoken file: lines of a token in base64
 * and its rank. `pattern` cuts text into words: a regular expression, or the
 * name of a known one: gpt2, cl100k_base, o200k_base, qwen. NULL as above.
 */
struct tokenizer *
tokenizer_new_tiktoken(struct slice ranks, struct slice pattern,
                       const struct tokenizer_special *specials,
                       size_t specials_count, char *why) MUST_CHECK;

/* Frees it; NULL is fine. No scratch of it may be used afterwards. */
void tokenizer_free(struct tokenizer *tokenizer);

/* Buffers for one thread that encodes with this tokenizer; NULL: out of
 * memory. */
struct tokenizer_scratch *
tokenizer_scratch_new(const struct tokenizer *tokenizer) MUST_CHECK;

/* Frees it; NULL is fine. */
void tokenizer_scratch_free(struct tokenizer_scratch *scratch);

/*
 * Appends the ids of a text. An outcome above; after any but TOKENIZER_OK the
 * ids hold the first part of them.
 */
int tokenizer_encode(struct tokenizer_scratch *scratch, struct slice text,
                     unsigned flags, struct tokenizer_ids *ids) MUST_CHECK;

/* What an outcome means, for people; NULL: TOKENIZER_OK. */
const char *tokenizer_outcome_text(int outcome);

/*
 * The end of the last added token in text[0, limit) after which the text can be
 * cut exactly: the ids of the text, without special tokens around it, are those
 * of the part before followed by those of the part after it, encoded with
 * TOKENIZER_CONTINUES. 0 when there is none. Takes time in proportion to limit.
 */
size_t tokenizer_cut(const struct tokenizer *tokenizer, struct slice text,
                     size_t limit);

/*
 * Appends the text of ids, as the file's decoder writes it. Ids that have no
 * token are left out, as the library does; so are special tokens when
 * skip_special. False: over the buffer's bound, or out of memory.
 */
bool tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids,
                      size_t count, bool skip_special, struct buf *out)
    MUST_CHECK;

/* Bytes that the tokenizer holds. */
size_t tokenizer_bytes(const struct tokenizer *tokenizer);

#endif
