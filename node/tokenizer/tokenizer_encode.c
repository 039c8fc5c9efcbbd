/* The way of a text: repaired, cut at added tokens, normalised, cut into words,
 * each word to the model; then what the file puts around it. */
#include <stdlib.h>
#include <string.h>

#include "node/text/json_text.h"
#include "node/tokenizer/tokenizer_internal.h"
#include "node/tokenizer/tokenizer_words_internal.h"

#define WORK_MAX   (4 * TOKENIZER_TEXT_MAX) /* bytes after normalising */
#define WORK_TIMES 16 /* what a text may become; NFKC makes 11 bytes of one */
#define WORK_PLUS  4096

void
tokenizer_ids_fini(struct tokenizer_ids *ids)
{
    free(ids->ptr);
    *ids = (struct tokenizer_ids){.ptr = NULL};
}

/* Makes room for more ids; false: a fault is set. */
static bool
ids_room(struct tokenizer_scratch *s, size_t count)
{
    struct tokenizer_ids *ids = s->ids;
    size_t wanted = ids->count + count;

    if (wanted > ids->max) {
        tok_fault(s, TOKENIZER_E_ROOM);
        return false;
    }
    size_t room = ids->room < 256 ? 256 : ids->room * 2;
    room = room < wanted ? wanted : room;
    void *more = realloc(ids->ptr, room * sizeof ids->ptr[0]);
    if (more == NULL) {
        tok_fault(s, TOKENIZER_E_MEMORY);
        return false;
    }
    ids->ptr = more;
    ids->room = room;
    return true;
}

bool
tok_has_room(struct tokenizer_scratch *s, size_t count)
{
    struct tokenizer_ids *ids = s->ids;

    return count <= ids->room - ids->count ||
           (count <= ids->max - ids->count && ids_room(s, count));
}

void
tok_emit_many(struct tokenizer_scratch *s, const uint32_t *ids, size_t count)
{
    struct tokenizer_ids *all = s->ids;

    if (count > all->room - all->count && !ids_room(s, count)) {
        return;
    }
    if (count > 0) {
        memcpy(all->ptr + all->count, ids, count * sizeof ids[0]);
    }
    all->count += count;
}

static void
bound(struct buf *buf, size_t max_bytes)
{
    if (buf->size > max_bytes) {
        buf_fini(buf);
    }
    buf->max_bytes = max_bytes;
}

void
tok_scratch_bound(struct tokenizer_scratch *s, size_t len)
{
    size_t max_bytes = WORK_TIMES * len + WORK_PLUS;

    max_bytes = max_bytes < WORK_MAX ? max_bytes : WORK_MAX;
    for (int i = 0; i < 2; i++) {
        bound(&s->norm[i], max_bytes);
        bound(&s->pre[i], max_bytes);
    }
    tok_matcher_bound(s->matcher, len);
}

struct tokenizer_scratch *
tokenizer_scratch_new(const struct tokenizer *tokenizer)
{
    struct tokenizer_scratch *s = calloc(1, sizeof *s);

    if (s == NULL) {
        return NULL;
    }
    s->tokenizer = tokenizer;
    buf_init(&s->valid, WORK_MAX);
    buf_init(&s->best, 32 * (size_t)TOKENIZER_TEXT_MAX);
    buf_init(&s->word, (size_t)4 * TOKENIZER_TOKEN_MAX);
    for (int i = 0; i < 2; i++) {
        buf_init(&s->norm[i], WORK_MAX);
        buf_init(&s->pre[i], WORK_MAX);
    }
    s->kernel = words_kernel_best();
    s->matcher = tok_matcher_new();
    if (tokenizer->model == TOK_BPE) {
        s->cache = cache_new();
    }
    if (s->matcher == NULL ||
        (tokenizer->model == TOK_BPE && s->cache == NULL)) {
        tokenizer_scratch_free(s);
        return NULL;
    }
    return s;
}

void
tokenizer_scratch_free(struct tokenizer_scratch *s)
{
    if (s == NULL) {
        return;
    }
    buf_fini(&s->valid);
    buf_fini(&s->best);
    buf_fini(&s->word);
    for (int i = 0; i < 2; i++) {
        buf_fini(&s->norm[i]);
        buf_fini(&s->pre[i]);
        free(s->pieces[i].ptr);
    }
    free(s->bpe.symbols);
    free(s->bpe.heap);
    tok_matcher_free(s->matcher);
    cache_free(s->cache);
    free(s);
}

/* A place up to which text[at, ...) is well-formed characters of three bytes. */
static inline size_t
threes_until(struct slice text, size_t at)
{
#ifdef __SSE2__
    const __m128i kinds = _mm_setr_epi8(
        (char)0xf0, (char)0xc0, (char)0xc0, (char)0xf0, (char)0xc0, (char)0xc0,
        (char)0xf0, (char)0xc0, (char)0xc0, (char)0xf0, (char)0xc0, (char)0xc0,
        (char)0xf0, (char)0xc0, (char)0xc0, 0);
    const __m128i wanted = _mm_setr_epi8(
        (char)0xe0, (char)0x80, (char)0x80, (char)0xe0, (char)0x80, (char)0x80,
        (char)0xe0, (char)0x80, (char)0x80, (char)0xe0, (char)0x80, (char)0x80,
        (char)0xe0, (char)0x80, (char)0x80, 0);
    size_t passed = TOK_FIVE;

    while (passed == TOK_FIVE && text.len - at > TOK_FIVE) {
        __m128i bytes = _mm_loadu_si128((const void *)(text.ptr + at));
        __m128i good = _mm_cmpeq_epi8(_mm_and_si128(bytes, kinds), wanted);
        /* Behind these two not every byte may come. */
        __m128i rare =
            _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)0xe0)),
                         _mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)0xed)));
        passed = tok_five_until(
            (unsigned)_mm_movemask_epi8(
                _mm_andnot_si128(good, _mm_set1_epi8((char)0xff))) |
            ((unsigned)_mm_movemask_epi8(rare) & TOK_FIVE_LEADS));
        at += passed;
    }
#endif
    (void)text;
    return at;
}

size_t
utf8_valid(struct slice text)
{
    size_t at = 0;

    while (at < text.len) {
        const uint8_t *b = (const uint8_t *)text.ptr + at;
        size_t len = 0;
        if (b[0] < 0x80) {
            len = ascii_until(text, at) - at;
        } else if (json_text_is_three(b, text.len - at)) {
            len = threes_until(text, at) - at;
            len += len == 0 ? 3 : 0;
        } else {
            len = json_text_char(
                (struct slice){.ptr = text.ptr + at, .len = text.len - at});
        }
        if (len == 0) {
            return at;
        }
        at += len;
    }
    return at;
}

size_t
utf8_broken(struct slice text)
{
    const uint8_t *b = (const uint8_t *)text.ptr;
    size_t wanted = b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
    uint8_t low = b[0] == 0xe0 ? 0xa0 : b[0] == 0xf0 ? 0x90 : 0x80;
    uint8_t high = b[0] == 0xed ? 0x9f : b[0] == 0xf4 ? 0x8f : 0xbf;
    size_t len = 1;

    if (b[0] < 0xc2 || b[0] > 0xf4) {
        return 1;
    }
    while (len < wanted && len < text.len && b[len] >= low && b[len] <= high) {
        low = 0x80;
        high = 0xbf;
        len++;
    }
    return len;
}

/* A text with U+FFFD for what is broken. */
static struct slice
repair(struct tokenizer_scratch *s, struct slice text)
{
    size_t good = utf8_valid(text);

    if (LIKELY(good == text.len)) {
        return text;
    }
    buf_clear(&s->valid);
    for (;;) {
        buf_add(&s->valid, text.ptr, good);
        slice_skip(&text, good);
        if (text.len == 0) {
            break;
        }
        size_t bad = utf8_broken(text);
        buf_add_text(&s->valid, "\xef\xbf\xbd");
        slice_skip(&text, bad);
        good = utf8_valid(text);
    }
    if (s->valid.failed) {
        tok_fault(s, TOKENIZER_E_LONG);
    }
    return buf_slice(&s->valid);
}

static struct slice
part_of(struct slice text, size_t start, size_t end)
{
    return (struct slice){.ptr = text.ptr + start, .len = end - start};
}

/* Text between added tokens of the first kind: normalised, then cut at those of
 * the second kind. */
static void
encode_part(struct tokenizer_scratch *s, struct slice text, bool first)
{
    const struct tokenizer *t = s->tokenizer;
    struct added_match match;
    size_t at = 0;
    size_t taken = 0;

    text = norm_run(s, text, &first);
    while (s->fault == TOKENIZER_OK &&
           added_next(t, &t->added.normalized, text, &at, taken, &match)) {
        if (match.start > taken) {
            pre_run(s, part_of(text, taken, match.start), first && taken == 0);
        }
        tok_emit(s, match.token->id);
        taken = match.end;
    }
    if (taken != text.len && s->fault == TOKENIZER_OK) {
        pre_run(s, part_of(text, taken, text.len), first && taken == 0);
    }
}

static void
encode_text(struct tokenizer_scratch *s, struct slice text, bool first)
{
    const struct tokenizer *t = s->tokenizer;
    struct added_match match;
    size_t at = 0;
    size_t taken = 0;

    while (s->fault == TOKENIZER_OK &&
           added_next(t, &t->added.raw, text, &at, taken, &match)) {
        if (match.start > taken) {
            encode_part(s, part_of(text, taken, match.start),
                        first && taken == 0);
        }
        tok_emit(s, match.token->id);
        taken = match.end;
    }
    if (taken < text.len && s->fault == TOKENIZER_OK) {
        encode_part(s, part_of(text, taken, text.len), first && taken == 0);
    }
}

/* Keeps as many of the ids from `from` on as the file allows. */
static void
truncate_ids(const struct post *post, struct tokenizer_ids *ids, size_t from,
             bool special)
{
    size_t count = ids->count - from;
    size_t around = special ? post->before_count + post->after_count : 0;
    size_t most = post->truncate > around ? post->truncate - around : 0;

    if (post->truncate == SIZE_MAX || count <= most) {
        return;
    }
    if (post->truncate_left && most > 0) {
        memmove(ids->ptr + from, ids->ptr + ids->count - most,
                most * sizeof ids->ptr[0]);
    }
    ids->count = from + most;
}

int
tokenizer_encode(struct tokenizer_scratch *s, struct slice text, unsigned flags,
                 struct tokenizer_ids *ids)
{
    const struct post *post = &s->tokenizer->post;
    bool special = (flags & TOKENIZER_SPECIAL) != 0;

    CHECK(ids->count <= ids->room);
    if (text.len > TOKENIZER_TEXT_MAX) {
        return TOKENIZER_E_LONG;
    }
    s->ids = ids;
    s->fault = TOKENIZER_OK;
    if (special) {
        tok_emit_many(s, post->before, post->before_count);
    }
    size_t from = ids->count;
    text = repair(s, text);
    tok_scratch_bound(s, text.len);
    if (text.len > 0 && s->fault == TOKENIZER_OK) {
        encode_text(s, text, (flags & TOKENIZER_CONTINUES) == 0);
    }
    if ((flags & TOKENIZER_TRUNCATE) != 0 && s->fault == TOKENIZER_OK) {
        truncate_ids(post, ids, from, special);
    }
    if (special && s->fault == TOKENIZER_OK) {
        tok_emit_many(s, post->after, post->after_count);
    }
    s->ids = NULL;
    return s->fault;
}

const char *
tokenizer_outcome_text(int outcome)
{
    switch (outcome) {
    case TOKENIZER_E_LONG:
        return "the text is too long";
    case TOKENIZER_E_ROOM:
        return "too many tokens";
    case TOKENIZER_E_MEMORY:
        return "out of memory";
    case TOKENIZER_E_WORK:
        return "a pattern took too many steps";
    case TOKENIZER_E_UNKNOWN:
        return "a character without a token, and no unknown token";
    default:
        return NULL;
    }
}
