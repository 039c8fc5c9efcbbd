#include "mesh/member_codec.h"

#include <string.h>

struct writer {
    uint8_t *at;
};

static void
put(struct writer *w, uint64_t value, unsigned size)
{
    for (unsigned i = 0; i < size; i++) {
        *w->at++ = (uint8_t)(value >> (8 * i));
    }
}

static void
put_id(struct writer *w, struct member_id id)
{
    put(w, id.word[0], 8);
    put(w, id.word[1], 8);
}

static void
put_text(struct writer *w, const char *text, size_t max)
{
    size_t len = strnlen(text, max - 1);

    put(w, len, 1);
    memcpy(w->at, text, len);
    w->at += len;
}

/* Fills in the size that was left open at `at`. */
static void
close_size(const struct writer *w, uint8_t *at)
{
    struct writer size = {.at = at};

    put(&size, (uint64_t)(w->at - at) - 2, 2);
}

static void
put_record(struct writer *w, const struct member_update *u)
{
    uint8_t *size = w->at;

    put(w, 0, 2);
    put_id(w, u->id);
    put_id(w, u->by);
    put(w, u->incarnation, 4);
    put(w, u->age_ms, 4);
    put(w, u->state, 1);
    put_text(w, u->name, MEMBER_NAME_MAX);
    put_text(w, u->address, MEMBER_ADDRESS_MAX);
    close_size(w, size);
}

size_t
member_codec_write(const struct member_message *m,
                   uint8_t bytes[MEMBER_CODEC_MAX])
{
    struct writer w = {.at = bytes};

    CHECK(m->updates_count <= MEMBERS_MAX && m->kind < MEMBER_KINDS);
    put(&w, MEMBER_CODEC_VERSION, 1);
    put(&w, m->kind, 1);
    put(&w, 0, 2);
    put(&w, m->number, 4);
    put(&w, m->up_ms, 8);
    put_id(&w, m->target);
    put_text(&w, m->target_address, MEMBER_ADDRESS_MAX);
    close_size(&w, bytes + 2);
    put_record(&w, &m->from);
    put(&w, m->updates_count, 1);
    for (uint32_t i = 0; i < m->updates_count; i++) {
        put_record(&w, &m->updates[i]);
    }
    CHECK((size_t)(w.at - bytes) <= MEMBER_CODEC_MAX);
    return (size_t)(w.at - bytes);
}

/* What is left to read; failed for good once something was missing. */
struct reader {
    const uint8_t *at;
    size_t left;
    bool failed;
};

static uint64_t
take(struct reader *r, unsigned size)
{
    uint64_t value = 0;

    if (r->left < size) {
        r->failed = true;
        r->left = 0;
        return 0;
    }
    for (unsigned i = 0; i < size; i++) {
        value |= (uint64_t)r->at[i] << (8 * i);
    }
    r->at += size;
    r->left -= size;
    return value;
}

static struct member_id
take_id(struct reader *r)
{
    struct member_id id;

    id.word[0] = take(r, 8);
    id.word[1] = take(r, 8);
    return id;
}

static void
take_text(struct reader *r, char *text, size_t max)
{
    size_t len = (size_t)take(r, 1);

    memset(text, 0, max);
    if (len >= max || r->left < len) {
        r->failed = true;
        return;
    }
    for (size_t i = 0; i < len; i++) {
        r->failed = r->failed || r->at[i] <= ' ' || r->at[i] > '~';
        text[i] = (char)r->at[i];
    }
    r->at += len;
    r->left -= len;
}

/* The part whose size is said next; the rest continues behind it. */
static struct reader
take_part(struct reader *r)
{
    size_t size = (size_t)take(r, 2);
    struct reader part = {.at = r->at, .left = size};

    if (r->failed || r->left < size) {
        r->failed = true;
        return (struct reader){.at = r->at, .failed = true};
    }
    r->at += size;
    r->left -= size;
    return part;
}

static void
take_record(struct reader *r, struct member_update *u)
{
    struct reader part = take_part(r);

    u->id = take_id(&part);
    u->by = take_id(&part);
    u->incarnation = (uint32_t)take(&part, 4);
    u->age_ms = (uint32_t)take(&part, 4);
    u->state = (uint8_t)take(&part, 1);
    take_text(&part, u->name, sizeof u->name);
    take_text(&part, u->address, sizeof u->address);
    r->failed = r->failed || part.failed || member_id_zero(u->id) ||
                u->state > MEMBER_LEFT || u->name[0] == '\0' ||
                u->address[0] == '\0';
}

static void
take_head(struct reader *r, struct member_message *m)
{
    struct reader head = take_part(r);

    m->number = (uint32_t)take(&head, 4);
    m->up_ms = take(&head, 8);
    m->target = take_id(&head);
    take_text(&head, m->target_address, sizeof m->target_address);
    r->failed = r->failed || head.failed;
}

int
member_codec_read(const uint8_t *bytes, size_t size, struct member_message *m)
{
    struct reader r = {.at = bytes, .left = size};
    uint64_t version = take(&r, 1);
    uint64_t kind = take(&r, 1);

    if (r.failed || version == 0) {
        return MEMBER_CODEC_BAD;
    }
    if (kind >= MEMBER_KINDS) {
        return MEMBER_CODEC_UNKNOWN;
    }
    m->kind = (enum member_kind)kind;
    take_head(&r, m);
    take_record(&r, &m->from);
    uint64_t count = take(&r, 1);

    m->updates_count = count < MEMBERS_MAX ? (uint32_t)count : MEMBERS_MAX;
    for (uint32_t i = 0; i < m->updates_count && !r.failed; i++) {
        take_record(&r, &m->updates[i]);
    }
    return r.failed ? MEMBER_CODEC_BAD : 0;
}
