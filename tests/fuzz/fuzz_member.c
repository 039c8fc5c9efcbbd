/* Whatever comes over the wire, a member's invariants hold; what was read is
 * written and read again the same; and it goes on among honest members as if
 * nothing had been said, unless it was told to stop. The input is a run of
 * [length u16, message]; a length of 0xFFFF lets time pass instead. */
#include <string.h>

#include "mesh/mesh.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct member_message message;
static struct member_message again;
static uint8_t bytes[MEMBER_CODEC_MAX];

static void
pull(struct member_table *table)
{
    struct member_out out;
    const char *reason;

    while (member_next_out(table, &out)) {
        if (out.kind == MEMBER_OUT_SEND) {
            size_t size = member_codec_write(out.message, bytes);
            CHECK(member_codec_read(bytes, size, &again) == 0);
        } else {
            CHECK(out.event < MEMBER_EVENTS);
        }
    }
    CHECK(member_check(table, &reason));
}

static void
round_trip(void)
{
    size_t size = member_codec_write(&message, bytes);
    static uint8_t second[MEMBER_CODEC_MAX];

    CHECK(size <= MEMBER_CODEC_MAX);
    CHECK(member_codec_read(bytes, size, &again) == 0);
    CHECK(member_codec_write(&again, second) == size);
    CHECK(memcmp(bytes, second, size) == 0);
}

static struct member_table *
start(void)
{
    static const struct member_self self = {
        .id = {{1, 1}}, .name = "me", .address = "10.0.0.1:1"};
    const struct member_config config = member_config_default();
    struct member_table *table;

    CHECK(member_new(&table, &config, &self, 1000, 1) == 0);
    return table;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct member_table *table = start();
    uint64_t now_us = 1000;

    while (size >= 2) {
        size_t len = (size_t)(data[0] | data[1] << 8);
        data += 2;
        size -= 2;
        if (len == 0xFFFF) {
            now_us = member_deadline(table) != UINT64_MAX
                         ? member_deadline(table)
                         : now_us + 1000;
            member_tick(table, now_us);
            pull(table);
            continue;
        }
        len = len < size ? len : size;
        if (member_codec_read(data, len, &message) == 0) {
            round_trip();
            member_recv(table, &message, now_us);
            pull(table);
        }
        data += len;
        size -= len;
    }
    CHECK(member_count_alive(table) <= MEMBERS_MAX);
    member_free(table);
    return 0;
}
