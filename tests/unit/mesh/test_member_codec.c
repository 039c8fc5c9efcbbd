#include <criterion/criterion.h>
#include <string.h>

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

Test(mesh_member_codec, what_a_later_version_adds_is_skipped)
{
    fill(1);
    size_t size = member_codec_write(&in, bytes);
    /* At the end of the message, */
    memset(bytes + size, 0xAB, 9);
    cr_assert_eq(member_codec_read(bytes, size + 9, &out), 0);
    /* and of the head. */
    size_t head = 4 + (size_t)bytes[2] + ((size_t)bytes[3] << 8);
    memmove(bytes + head + 3, bytes + head, size - head);
    memset(bytes + head, 0xCD, 3);
    bytes[2] = (uint8_t)(bytes[2] + 3);
    /* and of a record. */
    size += 3;
    size_t record = head + 3;
    size_t end = record + 2 + bytes[record];
    memmove(bytes + end + 2, bytes + end, size - end);
    bytes[record] = (uint8_t)(bytes[record] + 2);
    bytes[0] = 2;
    memset(&out, 0, sizeof out);
    cr_assert_eq(member_codec_read(bytes, size + 2, &out), 0);
    cr_assert_eq(memcmp(&in, &out, sizeof in), 0);
}

Test(mesh_member_codec, an_unknown_kind_is_no_error)
{
    fill(0);
    size_t size = member_codec_write(&in, bytes);
    bytes[1] = MEMBER_KINDS;
    cr_assert_eq(member_codec_read(bytes, size, &out), MEMBER_CODEC_UNKNOWN);
    bytes[0] = 0;
    cr_assert_eq(member_codec_read(bytes, size, &out), MEMBER_CODEC_BAD);
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
    in.updates[0].name[3] = '\n';
    cr_assert_eq(outcome(), MEMBER_CODEC_BAD);
    fill(1);
    in.from.name[3] = (char)0xC3;
    cr_assert_eq(outcome(), MEMBER_CODEC_BAD);
    fill(1);
    cr_assert_eq(outcome(), 0);
}
