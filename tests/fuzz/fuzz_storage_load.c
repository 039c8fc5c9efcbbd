/*
 * What a snapshot could say, had somebody made its digests right: roots,
 * records, parts and journals of mirror, ledger, belief and names. Nothing may
 * crash; what is refused is refused by an outcome.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/qsbr.h"
#include "index/index.h"
#include "storage/storage.h"

#define BYTES_MAX ((size_t)8 << 20)
#define WORDS_MAX 4096U
#define STREAMS   2U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
read_root(struct slice bytes)
{
    char copy[4096];
    struct storage_root root;

    if (bytes.len > sizeof copy - 8) {
        return;
    }
    memcpy(copy, bytes.ptr, bytes.len);
    uint64_t digest = key_digest((struct slice){copy, bytes.len});
    memcpy(copy + bytes.len, &digest, sizeof digest);
    if (storage_root_decode(&root, (struct slice){copy, bytes.len + 8}) ==
        STORAGE_OK) {
        (void)storage_root_find(&root, STORAGE_LEDGER, 3);
        storage_root_fini(&root);
    }
}

static void
read_records(struct slice bytes)
{
    struct storage_records in = storage_records(bytes);
    struct storage_stream stream;
    struct storage_worker worker;
    struct storage_member member;

    while (storage_get_stream(&in, &stream)) {
    }
    in = storage_records(bytes);
    while (storage_get_worker(&in, &worker)) {
    }
    in = storage_records(bytes);
    while (storage_get_member(&in, &member)) {
    }
}

static const struct watch_slots slots = {.live = {.word = {15}},
                                         .kept = {.word = {7}}};

static void
load_mirror(const uint64_t *words, size_t count, size_t journal)
{
    struct mirror_limits limits = {.bytes_max = BYTES_MAX};
    struct qsbr qsbr;
    struct mirror *mirror;
    const char *reason;

    qsbr_init(&qsbr);
    if (mirror_new(&mirror, &limits, &qsbr) != 0) {
        return;
    }
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(mirror_open_at(mirror, i) == 0);
    }
    (void)!mirror_load(mirror, words, count - journal, &slots);
    (void)!mirror_load_journal(mirror, words + (count - journal), journal,
                               &slots);
    CHECK(mirror_check(mirror, &reason));
    mirror_free(mirror);
}

static void
load_ledger(const uint64_t *words, size_t count, size_t journal)
{
    struct ledger_limits limits = {.bytes_max = BYTES_MAX};
    struct ledger *ledger;

    if (ledger_new(&ledger, &limits) != 0) {
        return;
    }
    ledger_load_begin(ledger, &slots);
    int rc = ledger_load(ledger, words, count - journal);
    if (rc == 0) {
        rc = ledger_load_journal(ledger, words + (count - journal), journal);
    }
    if (rc == 0) {
        rc = ledger_load_end(ledger);
    }
    if (rc == 0) {
        struct ledger_stats stats;
        ledger_stats(ledger, &stats);
    }
    ledger_free(ledger);
}

static void
load_belief(const uint64_t *words, size_t count)
{
    struct radix_limits limits = {
        .bytes_max = BYTES_MAX, .namespaces_max = 8, .depth_max = 512};
    uint32_t slot_of[WORKERS_MAX];
    struct qsbr qsbr;
    struct radix *radix;
    const char *reason;

    qsbr_init(&qsbr);
    if (radix_new(&radix, &limits, &qsbr) != 0) {
        return;
    }
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        slot_of[i] = i % 2;
    }
    CHECK(radix_worker_add(radix, 0, 100, RADIX_LRU) == 0);
    CHECK(radix_worker_add(radix, 1, 100, RADIX_FIFO) == 0);
    (void)!radix_load(radix, words, count, slot_of, 5);
    CHECK(radix_check(radix, &reason));
    radix_free(radix);
}

/* A copy of a table is the table. */
static void
copy_names(const struct names *table)
{
    struct names_room room = {.bytes_max = SIZE_MAX};
    struct names_copied copy = {.any = false};
    struct names_copy entry;
    struct words pages;
    uint32_t part = 0;
    size_t at = 0;

    words_init(&pages, SIZE_MAX / 16);
    while (part < NAMES_PARTS) {
        names_copy_page(table, (struct event_stream){.worker = 1}, &part, 64,
                        &pages);
    }
    CHECK(!pages.failed);
    while (names_copy_get(pages.word, pages.count, &at, &entry)) {
        CHECK(names_copied_take(&copy, &room, &entry) == 0);
    }
    CHECK(at == pages.count && copy.table.count == table->count &&
          copy.table.digest == table->digest);
    names_clear(&copy.table, &room);
    words_fini(&pages);
}

/* False: what follows is not read either. */
static bool
take_names(struct names_copied *copied, struct names_room *room,
           const uint64_t *words, size_t count)
{
    struct names_copy entry;
    size_t at = 0;
    bool sound = true;

    while (sound && names_copy_get(words, count, &at, &entry)) {
        sound = names_copied_take(&copied[entry.stream.worker % STREAMS], room,
                                  &entry) != NAMES_E_BAD;
    }
    return sound && at == count;
}

static void
load_names(const uint64_t *words, size_t count, size_t journal)
{
    struct names_copied copied[STREAMS] = {{.any = false}};
    struct names_room room = {.bytes_max = BYTES_MAX};
    const char *reason;

    (void)(take_names(copied, &room, words, count - journal) &&
           take_names(copied, &room, words + (count - journal), journal));
    for (uint32_t i = 0; i < STREAMS; i++) {
        CHECK(names_check(&copied[i].table, &reason));
        CHECK(copied[i].table.count == 0 || copied[i].any);
        copy_names(&copied[i].table);
        names_clear(&copied[i].table, &room);
    }
    CHECK(room.bytes == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint64_t words[WORDS_MAX];

    if (size < 2) {
        return 0;
    }
    struct slice rest = {(const char *)data + 2, size - 2};
    size_t count = rest.len / 8 < WORDS_MAX ? rest.len / 8 : WORDS_MAX;
    size_t journal = data[1] < count ? data[1] : count;
    memcpy(words, rest.ptr, count * 8);
    switch (data[0] % 6) {
    case 0:
        read_root(rest);
        break;
    case 1:
        read_records(rest);
        break;
    case 2:
        load_mirror(words, count, journal);
        break;
    case 3:
        load_ledger(words, count, journal);
        break;
    case 4:
        load_belief(words, count);
        break;
    default:
        load_names(words, count, journal);
        break;
    }
    return 0;
}
