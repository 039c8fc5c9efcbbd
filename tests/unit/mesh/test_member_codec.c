#include <criterion/criterion.h>
#include <string.h>

#include "index/base/pack.h"
#include "mesh/mesh.h"

static uint8_t bytes[MEMBER_CODEC_MAX + 64];
static struct member_message in;
static struct member_message out;

static void
fill(uint32_t updates)
{
    memset(&in, 0, sizeof in);
    in.kind = MEMBER_SYNC;
    in.number = 0x01020304;
    in.up_ms = UINT64_C(1) << 40;
    in.target = (struct member_id){{11, 12}};
    strcpy(in.target_address, "10.0.0.1:7946");
    in.updates_count = updates;
    for (uint32_t i = 0; i <= updates && i <= MEMBERS_MAX; i++) {
        struct member_update *u = i == 0 ? &in.from : &in.updates[i - 1];
        u->id = (struct member_id){{i + 1, 2}};
        u->by = (struct member_id){{3, i}};
        u->incarnation = i * 1000;
        u->age_ms = i;
        u->state = (uint8_t)(i % 4);
        memset(u->name, 'a' + (int)(i % 26), MEMBER_NAME_MAX - 1);
        memset(u->address, '1', MEMBER_ADDRESS_MAX - 1);
        memset(u->island, 'e', i % 2 == 0 ? MEMBER_ISLAND_MAX - 1 : 0);
    }
}

Test(mesh_member_codec, what_is_written_is_read)
{
    for (uint32_t updates = 0; updates <= MEMBERS_MAX; updates++) {
        fill(updates);
        memset(&out, 0, sizeof out);
        size_t size = member_codec_write(&in, bytes);
        cr_assert_leq(size, MEMBER_CODEC_MAX);
        cr_assert_eq(member_codec_read(bytes, size, &out), 0);
        cr_assert_eq(memcmp(&in, &out, sizeof in), 0, "%u", updates);
    }
}

Test(mesh_member_codec, whatever_is_cut_off_is_bad)
{
    fill(2);
    size_t size = member_codec_write(&in, bytes);
    for (size_t i = 0; i < size; i++) {
        cr_assert_neq(member_codec_read(bytes, i, &out), 0, "%zu", i);
    }
}

/* As written, with one more pair in the map at `at`, which ends at `end`. */
static size_t
add_pair(size_t size, size_t at, size_t end)
{
    static const char pair[] = "\xa5later\x92\x01\xc0";
    size_t len = sizeof pair - 1;

    memmove(bytes + end + len, bytes + end, size - end);
    memcpy(bytes + end, pair, len);
    bytes[at]++; /* of up to 15 pairs */
    return size + len;
}

/* Where the at-th map begins. */
static size_t
map_at(size_t size, uint32_t at)
{
    struct unpack maps;

    unpack_init(&maps, (struct slice){(char *)bytes, size});
    for (uint32_t i = 0; i < at; i++) {
        cr_assert(unpack_next(&maps));
    }
    return size - maps.left.len;
}

Test(mesh_member_codec, what_a_later_version_adds_is_skipped)
{
    fill(1);
    size_t size = member_codec_write(&in, bytes);

    for (uint32_t i = 0; i < 3; i++) { /* head, sender, record */
        size = add_pair(size, map_at(size, i), map_at(size, i + 1));
    }
    memcpy(bytes + size, "\x81\xa1x\x01", 4); /* and after the last */
    memset(&out, 0, sizeof out);
    cr_assert_eq(member_codec_read(bytes, size + 4, &out), 0);
    cr_assert_eq(memcmp(&in, &out, sizeof in), 0);
}

Test(mesh_member_codec, an_unknown_kind_is_no_error)
{
    fill(0);
    size_t size = member_codec_write(&in, bytes);
    cr_assert_eq(memcmp(bytes + 1, "\xa1k", 2), 0);
    bytes[3] = MEMBER_KINDS;
    cr_assert_eq(member_codec_read(bytes, size, &out), MEMBER_CODEC_UNKNOWN);
    bytes[2] = 'K';
    cr_assert_eq(member_codec_read(bytes, size, &out), MEMBER_CODEC_BAD);
}

Test(mesh_member_codec, a_record_that_was_announced_must_be_there)
{
    fill(2);
    size_t size = member_codec_write(&in, bytes);
    cr_assert_eq(member_codec_read(bytes, map_at(size, 3), &out),
                 MEMBER_CODEC_BAD);
}

static int
outcome(void)
{
    return member_codec_read(bytes, member_codec_write(&in, bytes), &out);
}

Test(mesh_member_codec, says_no_to_what_cannot_be)
{
    fill(1);
    in.updates[0].state = MEMBER_LEFT + 1;
    cr_assert_eq(outcome(), MEMBER_CODEC_BAD);
    fill(1);
    in.from.name[0] = '\0';
    cr_assert_eq(outcome(), MEMBER_CODEC_BAD);
    fill(1);
    in.from.address[0] = '\0';
    cr_assert_eq(outcome(), MEMBER_CODEC_BAD);
    fill(1);
    in.from.id = (struct member_id){0};
    cr_assert_eq(outcome(), MEMBER_CODEC_BAD);
    fill(1);
    in.kind = MEMBER_PING_REQ;
    in.target_address[0] = '\0';
    cr_assert_eq(outcome(), MEMBER_CODEC_BAD);
    fill(1);
    in.updates[0].name[3] = '\n';
    cr_assert_eq(outcome(), MEMBER_CODEC_BAD);
    fill(1);
    in.from.name[3] = (char)0xC3;
    cr_assert_eq(outcome(), MEMBER_CODEC_BAD);
    fill(1);
    cr_assert_eq(outcome(), 0);
}
