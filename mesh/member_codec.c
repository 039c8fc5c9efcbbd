/* Messages of the membership as msgpack maps. */
#include "mesh/member_codec.h"

#include <string.h>

#include "index/base/pack.h"

#define ID_SIZE 16U

/* An id of zeros is left out. */
static void
put_id(struct pack_map *map, const char *key, struct member_id id)
{
    uint8_t bytes[ID_SIZE];

    for (unsigned i = 0; i < ID_SIZE; i++) {
        bytes[i] = (uint8_t)(id.word[i / 8] >> 8 * (i % 8));
    }
    if (!member_id_zero(id)) {
        pack_put_bytes(map, key, (struct slice){(const char *)bytes, ID_SIZE});
    }
}

static void
put_unless_empty(struct pack_map *map, const char *key, const char *text)
{
    if (text[0] != '\0') {
        pack_put_text(map, key, slice_of(text));
    }
}

static void
put_record(struct buf *out, const struct member_update *u)
{
    struct pack_map map = pack_open(out);

    put_id(&map, "id", u->id);
    put_id(&map, "by", u->by);
    pack_put_uint(&map, "i", u->incarnation);
    pack_put_uint(&map, "age", u->age_ms);
    pack_put_uint(&map, "s", u->state);
    pack_put_text(&map, "n", slice_of(u->name));
    pack_put_text(&map, "a", slice_of(u->address));
    put_unless_empty(&map, "l", u->island);
    pack_close(&map);
}

static void
put_head(struct buf *out, const struct member_message *m)
{
    struct pack_map map = pack_open(out);

    pack_put_uint(&map, "k", m->kind);
    pack_put_uint(&map, "n", m->number);
    pack_put_uint(&map, "up", m->up_ms);
    put_id(&map, "t", m->target);
    put_unless_empty(&map, "at", m->target_address);
    pack_put_uint(&map, "u", m->updates_count);
    pack_close(&map);
}

size_t
member_codec_write(const struct member_message *m,
                   uint8_t bytes[MEMBER_CODEC_MAX])
{
    struct buf out = buf_over(bytes, MEMBER_CODEC_MAX);

    CHECK(m->updates_count <= MEMBERS_MAX && m->kind < MEMBER_KINDS);
    put_head(&out, m);
    put_record(&out, &m->from);
    for (uint32_t i = 0; i < m->updates_count; i++) {
        put_record(&out, &m->updates[i]);
    }
    CHECK(!out.failed);
    return out.len;
}

static struct member_id
get_id(struct unpack *in, const char *key)
{
    struct slice bytes = unpack_bytes(in, key, ID_SIZE);
    struct member_id id = {{0}};

    CHECK(bytes.len <= ID_SIZE);
    in->failed |= bytes.len != 0 && bytes.len != ID_SIZE;
    for (unsigned i = 0; i < bytes.len; i++) {
        id.word[i / 8] |= (uint64_t)(uint8_t)bytes.ptr[i] << 8 * (i % 8);
    }
    return id;
}

/* Opens the next map, which must exist and be a record. */
static void
get_record(struct unpack *in, struct member_update *u)
{
    if (!unpack_next(in)) {
        in->failed = true;
        return;
    }
    *u = (struct member_update){
        .id = get_id(in, "id"),
        .by = get_id(in, "by"),
        .incarnation = (uint32_t)unpack_uint(in, "i", UINT32_MAX),
        .age_ms = (uint32_t)unpack_uint(in, "age", UINT32_MAX),
        .state = (uint8_t)unpack_uint(in, "s", MEMBER_LEFT),
    };
    unpack_word(in, "n", u->name, sizeof u->name);
    unpack_word(in, "a", u->address, sizeof u->address);
    unpack_word(in, "l", u->island, sizeof u->island);
    in->failed |=
        member_id_zero(u->id) || u->name[0] == '\0' || u->address[0] == '\0';
}

static void
get_head(struct unpack *in, struct member_message *m)
{
    m->number = (uint32_t)unpack_uint(in, "n", UINT32_MAX);
    m->up_ms = unpack_uint(in, "up", UINT64_MAX);
    m->target = get_id(in, "t");
    memset(m->target_address, 0, sizeof m->target_address);
    unpack_word(in, "at", m->target_address, sizeof m->target_address);
    uint64_t count = unpack_uint(in, "u", UINT32_MAX);
    m->updates_count = count < MEMBERS_MAX ? (uint32_t)count : MEMBERS_MAX;
    CHECK(m->updates_count <= MEMBERS_MAX);
}

int
member_codec_read(const uint8_t *bytes, size_t size, struct member_message *m)
{
    struct unpack in;

    CHECK(m != NULL && (bytes != NULL || size == 0));
    unpack_init(&in, (struct slice){(const char *)bytes, size});
    if (!unpack_next(&in) || !unpack_has(&in, "k")) {
        return MEMBER_CODEC_BAD;
    }
    uint64_t kind = unpack_uint(&in, "k", UINT64_MAX);
    if (!in.failed && kind >= MEMBER_KINDS) {
        return MEMBER_CODEC_UNKNOWN;
    }
    m->kind = (enum member_kind)kind;
    get_head(&in, m);
    in.failed |= m->kind == MEMBER_PING_REQ && m->target_address[0] == '\0';
    get_record(&in, &m->from);
    for (uint32_t i = 0; i < m->updates_count && !in.failed; i++) {
        get_record(&in, &m->updates[i]);
    }
    return in.failed ? MEMBER_CODEC_BAD : 0;
}
