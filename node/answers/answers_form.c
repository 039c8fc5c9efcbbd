/* The name of a JSON document: digests from its leaves up. */
#include "node/answers/answers_form.h"

#include <stdlib.h>
#include <string.h>

#include "node/text/json_pull.h"

#define BATCH_BYTES 512U
#define PLAIN_MAX   48U /* bytes of a text that goes in as it is */

/* What begins a piece of a batch, before its length or its digest. */
enum piece {
    PIECE_KEY = 'k',
    PIECE_STRING = 's',
    PIECE_NUMBER = 'n',
    PIECE_TRUE = 't',
    PIECE_FALSE = 'f',
    PIECE_NULL = '0',
    PIECE_OBJECT = 'o',
    PIECE_ARRAY = 'a',
    PIECE_HOLE = 'h',
    PIECE_LONG = 0x80, /* beside one of the above: its digest follows */
};

struct member {
    struct slice key;
    struct key_wide value;
};

struct frame {
    bool object;
    uint32_t first;         /* of its members */
    struct slice key;       /* of the member that is being read */
    struct key_wide before; /* an array: of its items so far */
};

struct reading {
    struct json_pull pull;
    uint64_t seed;
    struct slice hole;
    uint32_t depth;
    uint32_t members_count;
    size_t batch_len; /* of the innermost array: what follows on its `before` */
    unsigned char batch[BATCH_BYTES];
    struct frame frame[JSON_PULL_DEPTH_MAX + 1];
    struct member member[ANSWERS_MEMBERS_MAX];
};

/* Pieces */

/* Takes the batch into the name of what came before it. */
static struct key_wide
take_batch(struct reading *r, struct key_wide before)
{
    if (r->batch_len == 0) {
        return before;
    }
    struct slice bytes = {(const char *)r->batch, r->batch_len};
    r->batch_len = 0;
    return answers_form_add(before, bytes, r->seed);
}

static void
put(struct reading *r, struct key_wide *before, const void *bytes, size_t len)
{
    CHECK(len <= BATCH_BYTES);
    if (len > BATCH_BYTES - r->batch_len) {
        *before = take_batch(r, *before);
    }
    memcpy(r->batch + r->batch_len, bytes, len);
    r->batch_len += len;
}

static void
put_digest(struct reading *r, struct key_wide *before, unsigned piece,
           struct key_wide digest)
{
    unsigned char bytes[1 + sizeof(digest)] = {(unsigned char)piece};

    memcpy(bytes + 1, &digest, sizeof(digest));
    put(r, before, bytes, sizeof(bytes));
}

static void
put_text(struct reading *r, struct key_wide *before, enum piece piece,
         struct slice text)
{
    unsigned char bytes[2 + PLAIN_MAX] = {(unsigned char)piece,
                                          (unsigned char)text.len};

    if (text.len > PLAIN_MAX) {
        put_digest(r, before, piece | PIECE_LONG,
                   key_wide_digest(text, r->seed));
        return;
    }
    if (text.len != 0) {
        memcpy(bytes + 2, text.ptr, text.len);
    }
    put(r, before, bytes, 2 + text.len);
}

/* Values */

static bool
notes_key(const struct reading *r, struct slice key)
{
    return r->depth == 1 && slice_equal(r->frame[1].key, key);
}

/* What the rules look at, of the members at the top. */
static void
note(const struct reading *r, enum piece piece, struct answers_form *form)
{
    form->seeded =
        form->seeded || (piece == PIECE_NUMBER && notes_key(r, SLICE("seed")));
    form->unstored = form->unstored ||
                     (piece == PIECE_FALSE && notes_key(r, SLICE("store")));
    form->searches =
        form->searches ||
        (piece != PIECE_NULL && notes_key(r, SLICE("web_search_options")));
}

/* The member that is being read has this value. False: there are too many. */
static bool
add_member(struct reading *r, struct key_wide value)
{
    if (r->members_count == ANSWERS_MEMBERS_MAX) {
        return false;
    }
    r->member[r->members_count++] =
        (struct member){.key = r->frame[r->depth].key, .value = value};
    return true;
}

static bool
take_scalar(struct reading *r, enum piece piece, struct answers_form *form)
{
    struct frame *in = &r->frame[r->depth];
    struct slice text = r->pull.text;

    if (piece == PIECE_STRING && text.len != 0 && text.ptr == r->hole.ptr &&
        text.len == r->hole.len) {
        form->holed = true;
        piece = PIECE_HOLE;
    }
    if (piece != PIECE_STRING && piece != PIECE_NUMBER) {
        text.len = 0;
    }
    if (!in->object) {
        put_text(r, &in->before, piece, text);
        return true;
    }
    note(r, piece, form);
    struct key_wide value = {0, 0};
    CHECK(r->batch_len == 0);
    put_text(r, &value, piece, text);
    return add_member(r, take_batch(r, value));
}

/* What was open has this name. */
static bool
take_closed(struct reading *r, enum piece piece, struct key_wide name,
            struct answers_form *form)
{
    struct frame *in = &r->frame[--r->depth];

    if (!in->object) {
        put_digest(r, &in->before, piece, name);
        return true;
    }
    note(r, piece, form);
    struct key_wide value = {0, 0};
    put_digest(r, &value, piece, name);
    return add_member(r, take_batch(r, value));
}

static bool
begin(struct reading *r, bool object)
{
    struct frame *in = &r->frame[r->depth];

    CHECK(r->depth < JSON_PULL_DEPTH_MAX);
    if (!in->object) {
        in->before = take_batch(r, in->before);
    }
    r->frame[++r->depth] =
        (struct frame){.object = object, .first = r->members_count};
    return true;
}

static int
by_key(const void *a, const void *b)
{
    const struct member *one = a;
    const struct member *other = b;

    return slice_compare(one->key, other->key);
}

static bool
end_object(struct reading *r, struct answers_form *form)
{
    const struct frame *in = &r->frame[r->depth];
    struct member *first = r->member + in->first;
    uint32_t count = r->members_count - in->first;
    struct key_wide name = {count, 0};

    qsort(first, count, sizeof(*first), by_key);
    for (uint32_t i = 0; i < count; i++) {
        if (i != 0 && slice_equal(first[i - 1].key, first[i].key)) {
            return false;
        }
        put_text(r, &name, PIECE_KEY, first[i].key);
        put_digest(r, &name, PIECE_OBJECT, first[i].value);
    }
    name = take_batch(r, name);
    r->members_count = in->first;
    return take_closed(r, PIECE_OBJECT, name, form);
}

static bool
end_array(struct reading *r, struct answers_form *form)
{
    struct frame *in = &r->frame[r->depth];

    return take_closed(r, PIECE_ARRAY, take_batch(r, in->before), form);
}

/* One token; false: the document has no name. */
static bool
take(struct reading *r, enum pull_token token, struct answers_form *form)
{
    switch (token) {
    case PULL_OBJECT:
        return begin(r, true);
    case PULL_OBJECT_END:
        return end_object(r, form);
    case PULL_ARRAY:
        return begin(r, false);
    case PULL_ARRAY_END:
        return end_array(r, form);
    case PULL_KEY:
        r->frame[r->depth].key = r->pull.text;
        return !r->pull.escaped;
    case PULL_STRING:
        return take_scalar(r, PIECE_STRING, form);
    case PULL_NUMBER:
        return take_scalar(r, PIECE_NUMBER, form);
    case PULL_TRUE:
        return take_scalar(r, PIECE_TRUE, form);
    case PULL_FALSE:
        return take_scalar(r, PIECE_FALSE, form);
    case PULL_NULL:
        return take_scalar(r, PIECE_NULL, form);
    case PULL_BAD:
    case PULL_END:
        return false;
    }
    return false;
}

bool
answers_form_read_around(struct slice body, struct slice hole, uint64_t seed,
                         struct answers_form *form)
{
    struct reading r;
    enum pull_token token;

    memset(form, 0, sizeof(*form));
    r.seed = seed;
    r.hole = hole;
    r.depth = 0;
    r.members_count = 0;
    r.batch_len = 0;
    r.frame[0] = (struct frame){.object = false};
    json_pull_init(&r.pull, body);
    token = json_pull_next(&r.pull);
    if (token != PULL_OBJECT) {
        return false;
    }
    while (token > PULL_END) {
        if (!take(&r, token, form)) {
            return false;
        }
        token = json_pull_next(&r.pull);
    }
    form->name = take_batch(&r, r.frame[0].before);
    if (form->holed) {
        form->kin = form->name;
        form->name = answers_form_add(form->kin, hole, seed);
    }
    return token == PULL_END;
}

struct key_wide
answers_form_add(struct key_wide name, struct slice more, uint64_t seed)
{
    struct key_wide both[2] = {name, key_wide_digest(more, seed)};

    return key_wide_digest((struct slice){(const char *)both, sizeof(both)},
                           seed);
}
