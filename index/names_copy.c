/* Tables of names as they are copied while they change, and back. */
#include <string.h>

#include "index/names.h"

#define HEAD_WORDS 3U

static uint64_t
head_of(enum names_copy_kind kind, size_t count)
{
    CHECK(count <= UINT32_MAX);
    return (uint64_t)kind | (uint64_t)count << 32;
}

void
names_copy_put(struct words *into, const struct names_copy *entry)
{
    uint64_t *at =
        into == NULL ? NULL : words_add(into, HEAD_WORDS + entry->count);

    CHECK(entry->kind < NAMES_COPY_KINDS);
    if (at != NULL) {
        at[0] = head_of(entry->kind, entry->count);
        at[1] = entry->stream.worker;
        at[2] = entry->stream.rank;
        if (entry->count > 0) {
            memcpy(at + HEAD_WORDS, entry->words,
                   entry->count * sizeof *entry->words);
        }
    }
}

/* ---- pages ---- */

static void
say_part(const struct names_part *part, struct names_said *said)
{
    for (uint32_t i = 0; i < part->size; i++) {
        const struct names_block *block = &part->block[i];
        if (!block->used || block->bare || block->copies == 0) {
            continue;
        }
        names_say_enter(said, block);
        if (block->copies != NAMES_PLAIN) {
            names_say_copies(said, block->name, block->copies);
        }
    }
}

void
names_copy_page(const struct names *names, struct event_stream stream,
                uint32_t *part, size_t words, struct words *into)
{
    struct names_said said = {.last = 0};

    CHECK(*part < NAMES_PARTS && !names->keeps);
    words_init(&said.words, into->words_max);
    if (*part == 0 && names->reader_count > 0) {
        names_say_reader(&said, names->reader, names->reader_count);
    }
    while (*part < NAMES_PARTS && said.words.count < words) {
        say_part(&names->part[(*part)++], &said);
    }
    if (said.words.count > 0) {
        names_copy_put(into, &(struct names_copy){.kind = NAMES_COPY_SAID,
                                                  .stream = stream,
                                                  .words = said.words.word,
                                                  .count = said.words.count});
    }
    into->failed = into->failed || said.words.failed;
    words_fini(&said.words);
}

/* ---- and back ---- */

bool
names_copy_get(const uint64_t *words, size_t count, size_t *at,
               struct names_copy *entry)
{
    CHECK(*at <= count);
    if (count - *at < HEAD_WORDS) {
        return false;
    }
    const uint64_t *head = words + *at;
    size_t len = (size_t)(head[0] >> 32);
    if ((head[0] & 0xff) >= NAMES_COPY_KINDS || head[2] > UINT32_MAX ||
        len > count - *at - HEAD_WORDS) {
        return false;
    }
    *entry = (struct names_copy){
        .kind = (enum names_copy_kind)(head[0] & 0xff),
        .stream = {.worker = head[1], .rank = (uint32_t)head[2]},
        .words = head + HEAD_WORDS,
        .count = len,
    };
    *at += HEAD_WORDS + len;
    return true;
}

static void
clear(struct names_copied *copied, struct names_room *room, bool keeps_reader)
{
    struct names reader = {.count = 0};

    if (keeps_reader) {
        reader.reader_known = copied->table.reader_known;
        reader.reader_count = copied->table.reader_count;
        memcpy(reader.reader, copied->table.reader, sizeof reader.reader);
    }
    names_clear(&copied->table, room);
    copied->table = reader;
    copied->lost = false;
}

int
names_copied_take(struct names_copied *copied, struct names_room *room,
                  const struct names_copy *entry)
{
    int rc = 0;

    copied->any = true;
    switch (entry->kind) {
    case NAMES_COPY_SAID:
        if (!copied->lost) {
            rc = names_apply(&copied->table, room, entry->words, entry->count);
        }
        break;
    case NAMES_COPY_BEGIN:
    case NAMES_COPY_CLEAR:
        clear(copied, room, entry->kind == NAMES_COPY_CLEAR);
        break;
    case NAMES_COPY_LOST:
        clear(copied, room, false);
        copied->lost = true;
        break;
    case NAMES_COPY_KINDS:
        rc = NAMES_E_BAD;
        break;
    }
    if (rc != 0) {
        clear(copied, room, false);
        copied->lost = true;
    }
    return rc;
}
