/*
 * The 4-ary heap that says which of a worker's leaves gives way next.
 */
#include "index/order_internal.h"

#include <string.h>

#include "index/radix_internal.h"

#define PAGE_LOG2         6
#define PAGE_ENTRIES      (1U << PAGE_LOG2)
#define DIRECTORY_LEAST   14U /* references: with the head 64 bytes */
#define DIRECTORY_AT_MOST ((uint32_t)(CELL_SIZE_MAX / 4) - 2)

struct entry {
    uint64_t value;
    uint32_t record;
    uint32_t unused;
};

struct page {
    struct cell cell;
    struct entry entry[PAGE_ENTRIES];
};

struct directory {
    struct cell cell;
    uint32_t page[];
};

void
order_init(struct order *order, uint32_t which)
{
    CHECK(which < 2);
    *order = (struct order){.which = which};
}

static struct entry *
entry_at(const struct order *order, const struct cell_store *store,
         uint32_t place)
{
    const struct directory *directory = cell_at(store, order->directory);
    struct page *page = cell_at(store, directory->page[place >> PAGE_LOG2]);
    CHECK_SLOW(place >> PAGE_LOG2 < order->pages);
    return &page->entry[place & (PAGE_ENTRIES - 1)];
}

/* Writes an entry to a place, and notes the place in its record. */
static void
entry_put(const struct order *order, const struct cell_store *store,
          uint32_t place, const struct entry *entry)
{
    struct radix_record *record = cell_at(store, entry->record);

    CHECK_SLOW(place < order->count);
    *entry_at(order, store, place) = *entry;
    record->place[order->which] = place;
}

uint32_t
order_page(const struct order *order, const struct cell_store *store,
           uint32_t page)
{
    const struct directory *directory = cell_at(store, order->directory);
    CHECK(page < order->pages);
    return directory->page[page];
}

static void
drop_page(struct order *order, struct cell_store *store)
{
    CHECK(order->pages > 0);
    cell_free(store, order_page(order, store, order->pages - 1));
    order->pages--;
}

void
order_fini(struct order *order, struct cell_store *store)
{
    while (order->pages > 0) {
        drop_page(order, store);
    }
    if (order->directory != CELL_NONE) {
        cell_free(store, order->directory);
    }
    order_init(order, order->which);
}

static bool
grow_directory(struct order *order, struct cell_store *store)
{
    uint32_t max = order->directory_max == 0 ? DIRECTORY_LEAST
                                             : order->directory_max * 2 + 2;

    CHECK(order->pages == order->directory_max);
    if (order->directory_max == DIRECTORY_AT_MOST) {
        return false;
    }
    max = max > DIRECTORY_AT_MOST ? DIRECTORY_AT_MOST : max;
    uint32_t ref =
        cell_alloc(store, sizeof(struct directory) + max * sizeof(uint32_t));
    if (ref == CELL_NONE) {
        return false;
    }
    if (order->directory != CELL_NONE) {
        struct directory *to = cell_at(store, ref);
        const struct directory *from = cell_at(store, order->directory);
        memcpy(to->page, from->page, order->pages * sizeof(uint32_t));
        cell_free(store, order->directory);
    }
    order->directory = ref;
    order->directory_max = max;
    return true;
}

bool
order_reserve(struct order *order, struct cell_store *store, uint32_t n)
{
    while (order->pages * PAGE_ENTRIES < order->count + n) {
        if (order->pages == order->directory_max &&
            !grow_directory(order, store)) {
            return false;
        }
        uint32_t ref = cell_alloc(store, sizeof(struct page));
        if (ref == CELL_NONE) {
            return false;
        }
        struct directory *directory = cell_at(store, order->directory);
        directory->page[order->pages++] = ref;
    }
    return true;
}

/* Moves an entry up from place, as long as it is less than its parent. */
static uint32_t
sift_up(const struct order *order, const struct cell_store *store,
        uint32_t place, uint64_t value)
{
    CHECK_SLOW(place < order->count);
    while (place > 0) {
        uint32_t above = (place - 1) / 4;
        const struct entry *parent = entry_at(order, store, above);
        if (parent->value <= value) {
            break;
        }
        entry_put(order, store, place, parent);
        place = above;
    }
    return place;
}

static uint32_t
sift_down(const struct order *order, const struct cell_store *store,
          uint32_t place, uint64_t value)
{
    CHECK_SLOW(place < order->count);
    for (;;) {
        uint32_t first = place * 4 + 1;
        uint32_t end = first + 4 < order->count ? first + 4 : order->count;
        const struct entry *least = NULL;
        uint32_t at = 0;
        for (uint32_t i = first; i < end; i++) {
            const struct entry *child = entry_at(order, store, i);
            if (least == NULL || child->value < least->value) {
                least = child;
                at = i;
            }
        }
        if (least == NULL || least->value >= value) {
            return place;
        }
        entry_put(order, store, place, least);
        place = at;
    }
}

void
order_push(struct order *order, struct cell_store *store, uint64_t value,
           uint32_t record)
{
    struct entry entry = {.value = value, .record = record};

    CHECK(order->count < order->pages * PAGE_ENTRIES);
    CHECK(record != CELL_NONE);
    CHECK(
        ((struct radix_record *)cell_at(store, record))->place[order->which] ==
        ORDER_NOWHERE);
    uint32_t place = sift_up(order, store, order->count++, value);
    entry_put(order, store, place, &entry);
}

void
order_remove(struct order *order, struct cell_store *store, uint32_t place)
{
    CHECK(place < order->count);
    struct radix_record *gone =
        cell_at(store, order_record(order, store, place));
    struct entry last = *entry_at(order, store, --order->count);
    CHECK(gone->place[order->which] == place);

    if (place < order->count) {
        uint32_t to = sift_up(order, store, place, last.value);
        if (to == place) {
            to = sift_down(order, store, place, last.value);
        }
        entry_put(order, store, to, &last);
    }
    gone->place[order->which] = ORDER_NOWHERE;
    /* Keeps one page spare, so that a push after a removal needs no room. */
    if (order->count + 2 * PAGE_ENTRIES < order->pages * PAGE_ENTRIES) {
        drop_page(order, store);
    }
}

uint32_t
order_record(const struct order *order, const struct cell_store *store,
             uint32_t place)
{
    CHECK(place < order->count);
    return entry_at(order, store, place)->record;
}

uint64_t
order_value(const struct order *order, const struct cell_store *store,
            uint32_t place)
{
    CHECK(place < order->count);
    return entry_at(order, store, place)->value;
}

bool
order_check(const struct order *order, const struct cell_store *store)
{
    if (order->count > order->pages * PAGE_ENTRIES ||
        order->pages > order->directory_max) {
        return false;
    }
    for (uint32_t i = 0; i < order->count; i++) {
        const struct entry *entry = entry_at(order, store, i);
        const struct radix_record *record = cell_at(store, entry->record);
        if (record->place[order->which] != i ||
            (i > 0 &&
             entry_at(order, store, (i - 1) / 4)->value > entry->value)) {
            return false;
        }
    }
    return true;
}
