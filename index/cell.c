/*
 * The store of cells: runs of 16-byte units in chunks, found by size class as
 * in TLSF.
 */
#include "index/cell_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/poison.h"

/* A run's size word: its units above two flags. */
#define RUN_FREE      1U /* this run is in a free list */
#define RUN_PREV_FREE 2U /* the run below it is */
#define RUN_SHIFT     2

#define ROW      16U /* classes of one power of two */
#define ROW_LOG2 4U

#define CHUNK_UNITS_MIN 4096U /* 64 KiB */
#define CHUNK_BYTES_MIN ((size_t)8 << 10)

/*
 * A free run: the head links to the next of its class, the word after it to
 * the one before, and the run's last word repeats its units, so that the run
 * above finds where this one starts.
 */
struct run {
    struct cell cell;
    uint32_t before;
};

static struct run *
run_at(const struct cell_store *store, uint32_t ref)
{
    CHECK_SLOW(ref != CELL_NONE);
    return cell_at(store, ref);
}

static uint32_t
run_units(const struct run *run)
{
    return run->cell.size >> RUN_SHIFT;
}

/* Nobody may touch a free run, except for our own words in it. */
static void
run_poison(struct run *run, uint32_t units, bool bad)
{
    if (units > 1 && bad) {
        poison((unsigned char *)run + CELL_UNIT,
               ((size_t)units - 1) * CELL_UNIT - 8, true);
    } else if (units > 1) {
        poison(run, (size_t)units * CELL_UNIT, false);
    }
}

/* The class of runs of n units: exact below 16, then 16 to a power of two. */
static uint32_t
bin_of(uint32_t n)
{
    CHECK(n > 0);
    if (n < ROW) {
        return n;
    }
    uint32_t log2 = 31U - (uint32_t)__builtin_clz(n);
    return (log2 - ROW_LOG2 + 1) * ROW + ((n >> (log2 - ROW_LOG2)) & (ROW - 1));
}

/* The first class whose every run has n units or more. */
static uint32_t
bin_for(uint32_t n)
{
    if (n >= ROW) {
        uint32_t log2 = 31U - (uint32_t)__builtin_clz(n);
        n += (1U << (log2 - ROW_LOG2)) - 1;
    }
    return bin_of(n);
}

static void
list_push(struct cell_store *store, uint32_t ref, uint32_t units)
{
    struct run *run = run_at(store, ref);
    uint32_t bin = bin_of(units);
    uint32_t next = store->list[bin];
    uint32_t *last =
        (uint32_t *)(void *)((unsigned char *)run + (size_t)units * CELL_UNIT) -
        1;

    CHECK(units > 0 && (run->cell.size & RUN_FREE) == 0);
    run->cell.size =
        units << RUN_SHIFT | RUN_FREE | (run->cell.size & RUN_PREV_FREE);
    run->cell.link = next;
    run->before = CELL_NONE;
    *last = units;
    if (next != CELL_NONE) {
        run_at(store, next)->before = ref;
    }
    store->list[bin] = ref;
    store->list_bits[bin / ROW] |= (uint16_t)(1U << bin % ROW);
    store->row_bits |= 1U << bin / ROW;
    run_at(store, ref + units)->cell.size |= RUN_PREV_FREE;
    run_poison(run, units, true);
}

static void
list_remove(struct cell_store *store, uint32_t ref)
{
    struct run *run = run_at(store, ref);
    uint32_t bin = bin_of(run_units(run));

    CHECK((run->cell.size & RUN_FREE) != 0 && store->list[bin] != CELL_NONE);
    run_poison(run, run_units(run), false);
    if (run->cell.link != CELL_NONE) {
        run_at(store, run->cell.link)->before = run->before;
    }
    if (run->before != CELL_NONE) {
        run_at(store, run->before)->cell.link = run->cell.link;
    } else {
        store->list[bin] = run->cell.link;
    }
    if (store->list[bin] == CELL_NONE) {
        store->list_bits[bin / ROW] &= (uint16_t) ~(1U << bin % ROW);
        if (store->list_bits[bin / ROW] == 0) {
            store->row_bits &= ~(1U << bin / ROW);
        }
    }
    run->cell.size &= ~RUN_FREE;
    run_at(store, ref + run_units(run))->cell.size &= ~RUN_PREV_FREE;
}

/* A free run of at least units, or CELL_NONE. */
static uint32_t
list_find(const struct cell_store *store, uint32_t units)
{
    uint32_t bin = bin_for(units);
    uint32_t row = bin / ROW;
    uint32_t bits = store->list_bits[row] & (~0U << bin % ROW);

    CHECK_SLOW(row < CELL_CLASSES / ROW);
    if (bits == 0) {
        uint32_t rows = store->row_bits & (~0U << row << 1);
        if (rows == 0) {
            return CELL_NONE;
        }
        row = (uint32_t)__builtin_ctz(rows);
        bits = store->list_bits[row];
    }
    return store->list[row * ROW + (uint32_t)__builtin_ctz(bits)];
}

/* True when the run fills its chunk. */
static bool
fills_chunk(const struct cell_store *store, uint32_t ref, uint32_t units)
{
    CHECK_SLOW(units > 0);
    return store->chunk_units[ref >> CELL_CHUNK_LOG2] == units + 1;
}

/* How many units the next chunk gets; 0 when the bound is reached. */
static uint32_t
chunk_plan(const struct cell_store *store, uint32_t units)
{
    size_t left = store->bytes_max - store->bytes;
    size_t want = store->bytes / CELL_UNIT;

    CHECK(store->bytes <= store->bytes_max);
    want = want < CHUNK_UNITS_MIN ? CHUNK_UNITS_MIN : want;
    want = want < units + 1 ? units + 1 : want;
    want = want > 1U << CELL_CHUNK_LOG2 ? 1U << CELL_CHUNK_LOG2 : want;
    want = want > left / CELL_UNIT ? left / CELL_UNIT : want;
    if (want * CELL_UNIT < CHUNK_BYTES_MIN || want < units + 1) {
        return 0;
    }
    return (uint32_t)want;
}

/* Adds a chunk, as one free run. False: no room, or no memory. */
static bool
chunk_add(struct cell_store *store, uint32_t units)
{
    uint32_t number = 1;
    uint32_t plan = chunk_plan(store, units);

    CHECK(units > 0);
    store->starved = false;
    while (number < store->chunks_max && store->chunk[number] != NULL) {
        number++;
    }
    if (plan == 0 || number == store->chunks_max) {
        return false;
    }
    size_t size = (size_t)plan * CELL_UNIT;
    unsigned char *chunk =
        store->allocator->alloc(store->allocator->context, size);
    if (chunk == NULL) {
        store->starved = true;
        return false;
    }
    store->chunk[number] = chunk;
    store->chunk_units[number] = plan;
    store->chunks_count++;
    store->chunks_empty++;
    store->bytes += size;
    uint32_t first = number << CELL_CHUNK_LOG2;
    run_at(store, first)->cell.size = 0;
    run_at(store, first + plan - 1)->cell = (struct cell){.size = 0};
    list_push(store, first, plan - 1);
    return true;
}

static void
chunk_drop(struct cell_store *store, uint32_t number)
{
    size_t size = (size_t)store->chunk_units[number] * CELL_UNIT;

    CHECK(store->chunk[number] != NULL && store->chunks_count > 0);
    CHECK(store->bytes >= size);
    poison(store->chunk[number], size, false);
    store->allocator->free(store->allocator->context, store->chunk[number],
                           size);
    store->chunk[number] = NULL;
    store->chunk_units[number] = 0;
    store->chunks_count--;
    store->bytes -= size;
}

uint32_t
cell_alloc(struct cell_store *store, size_t size)
{
    uint32_t units = (uint32_t)((size + CELL_UNIT - 1) / CELL_UNIT);

    CHECK(size >= sizeof(struct cell) && size <= CELL_SIZE_MAX);
    CHECK_SLOW(store->used_bytes <= store->bytes);
    uint32_t ref = list_find(store, units);
    if (ref == CELL_NONE) {
        if (!chunk_add(store, units)) {
            return CELL_NONE;
        }
        ref = list_find(store, units);
        if (ref == CELL_NONE) {
            return CELL_NONE;
        }
    }
    struct run *run = run_at(store, ref);
    uint32_t have = run_units(run);
    if (fills_chunk(store, ref, have)) {
        store->chunks_empty--;
    }
    list_remove(store, ref);
    if (have > units) {
        run_at(store, ref + units)->cell.size = 0;
        list_push(store, ref + units, have - units);
    }
    run->cell.size = units << RUN_SHIFT | (run->cell.size & RUN_PREV_FREE);
    run->cell.link = CELL_NONE;
    store->used_bytes += (size_t)units * CELL_UNIT;
    return ref;
}

void
cell_free(struct cell_store *store, uint32_t ref)
{
    struct run *run = run_at(store, ref);
    uint32_t units = run_units(run);

    CHECK(units > 0 && (run->cell.size & RUN_FREE) == 0);
    CHECK(store->used_bytes >= (size_t)units * CELL_UNIT);
    store->used_bytes -= (size_t)units * CELL_UNIT;
    struct run *above = run_at(store, ref + units);
    if (above->cell.size & RUN_FREE) {
        uint32_t more = run_units(above);
        list_remove(store, ref + units);
        units += more;
    }
    if (run->cell.size & RUN_PREV_FREE) {
        uint32_t below = *((const uint32_t *)(const void *)run - 1);
        ref -= below;
        list_remove(store, ref);
        units += below;
    }
    list_push(store, ref, units);
    if (fills_chunk(store, ref, units)) {
        if (store->chunks_empty > 0) {
            list_remove(store, ref);
            chunk_drop(store, ref >> CELL_CHUNK_LOG2);
        } else {
            store->chunks_empty++;
        }
    }
}

size_t
cell_size(const struct cell_store *store, uint32_t ref)
{
    CHECK(ref != CELL_NONE);
    return (size_t)run_units(run_at(store, ref)) * CELL_UNIT;
}

int
cell_init(struct cell_store *store, size_t bytes_max,
          const struct radix_allocator *allocator)
{
    CHECK(allocator != NULL);
    /* The first chunks may be small, hence the eight; 0 stays unused. */
    size_t chunks = bytes_max / CELL_CHUNK_MAX + 8;
    size_t table = chunks * (sizeof(unsigned char *) + sizeof(uint32_t));

    CHECK(chunks < 1U << (31 - CELL_CHUNK_LOG2));
    if (bytes_max < table + 2 * CHUNK_BYTES_MIN) {
        return -EINVAL;
    }
    *store = (struct cell_store){.allocator = allocator,
                                 .chunks_max = (uint32_t)chunks,
                                 .bytes_max = bytes_max - table,
                                 .fixed_bytes = table};
    store->chunk = allocator->alloc(allocator->context, table);
    if (store->chunk == NULL) {
        return -ENOMEM;
    }
    memset((void *)store->chunk, 0, table);
    store->chunk_units = (uint32_t *)(void *)(store->chunk + chunks);
    return 0;
}

void
cell_fini(struct cell_store *store)
{
    for (uint32_t i = 1; i < store->chunks_max; i++) {
        if (store->chunk[i] != NULL) {
            chunk_drop(store, i);
        }
    }
    store->allocator->free(store->allocator->context, (void *)store->chunk,
                           store->fixed_bytes);
    store->chunk = NULL;
    CHECK(store->chunks_count == 0 && store->bytes == 0);
}

/* Counts the free runs in the lists, and their units. */
static bool
check_lists(const struct cell_store *store, size_t *count, const char **reason)
{
    for (uint32_t bin = 0; bin < CELL_CLASSES; bin++) {
        uint32_t before = CELL_NONE;
        uint32_t bits = store->list_bits[bin / ROW];
        bool marked = (bits >> (bin % ROW) & 1U) != 0;

        *reason = "cell: a list bit disagrees with its list";
        if (marked != (store->list[bin] != CELL_NONE)) {
            return false;
        }
        for (uint32_t ref = store->list[bin]; ref != CELL_NONE;) {
            const struct run *run = run_at(store, ref);
            *reason = "cell: a run in the wrong list";
            if ((run->cell.size & RUN_FREE) == 0 || run->before != before ||
                bin_of(run_units(run)) != bin) {
                return false;
            }
            (*count)++;
            before = ref;
            ref = run->cell.link;
        }
    }
    return true;
}

/* Verifies one chunk, from its first run to its end mark. */
static bool
check_chunk(const struct cell_store *store, uint32_t number, size_t *free_count,
            size_t *used_units)
{
    uint32_t ref = number << CELL_CHUNK_LOG2;
    uint32_t end = ref + store->chunk_units[number] - 1;
    bool below_free = false;

    while (ref < end) {
        const struct run *run = run_at(store, ref);
        bool is_free = (run->cell.size & RUN_FREE) != 0;
        if (run_units(run) == 0 || (is_free && below_free) ||
            ((run->cell.size & RUN_PREV_FREE) != 0) != below_free) {
            return false;
        }
        *free_count += is_free ? 1 : 0;
        *used_units += is_free ? 0 : run_units(run);
        below_free = is_free;
        ref += run_units(run);
    }
    return ref == end && run_units(run_at(store, end)) == 0;
}

bool
cell_check(const struct cell_store *store, const char **reason)
{
    size_t listed = 0;
    size_t met = 0;
    size_t used_units = 0;
    size_t bytes = 0;

    if (!check_lists(store, &listed, reason)) {
        return false;
    }
    for (uint32_t i = 1; i < store->chunks_max; i++) {
        *reason = "cell: a broken chunk";
        if (store->chunk[i] != NULL &&
            !check_chunk(store, i, &met, &used_units)) {
            return false;
        }
        bytes += (size_t)store->chunk_units[i] * CELL_UNIT;
    }
    *reason = "cell: the counts disagree";
    return listed == met && used_units * CELL_UNIT == store->used_bytes &&
           bytes == store->bytes && store->bytes <= store->bytes_max;
}
