/*
 * The tree as a whole: its memory, its workers, its background work.
 */
#include "index/radix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/radix_internal.h"

/* One part in this many of the bound is kept free by radix_work(). */
#define ROOM_SHARE 64

static void *
default_alloc(void *context, size_t size)
{
    (void)context;
    return malloc(size);
}

static void
default_free(void *context, void *memory, size_t size)
{
    (void)context;
    (void)size;
    free(memory);
}

static const struct radix_allocator default_allocator = {.alloc = default_alloc,
                                                         .free = default_free};

/* Of the store: where readers walk, which huge pages are for. */
static void *
heap_alloc(void *context, size_t size)
{
    return page_heap_take(context, size);
}

static void
heap_free(void *context, void *memory, size_t size)
{
    page_heap_give(context, memory, size);
}

/* Bytes of the struct and of the steps of the longest way, in one piece. */
static size_t
fixed_bytes(const struct radix_limits *limits)
{
    CHECK(limits->depth_max <= RADIX_DEPTH_MAX);
    return sizeof(struct radix) +
           ((size_t)limits->depth_max + 2) * sizeof(struct radix_step);
}

int
radix_new(struct radix **out, const struct radix_limits *limits,
          struct qsbr *qsbr)
{
    const struct radix_allocator *allocator =
        limits->allocator != NULL ? limits->allocator : &default_allocator;
    size_t fixed = fixed_bytes(limits);

    CHECK(limits->depth_max > 0 && limits->namespaces_max > 0);
    CHECK(limits->depth_max <= RADIX_DEPTH_MAX &&
          limits->bytes_max <= RADIX_BYTES_MAX);
    CHECK(out != NULL && qsbr != NULL);
    if (limits->bytes_max <= fixed) {
        return -EINVAL;
    }
    struct radix *radix = allocator->alloc(allocator->context, fixed);
    if (radix == NULL) {
        return -ENOMEM;
    }
    memset(radix, 0, fixed);
    radix->heap_allocator = (struct radix_allocator){
        .alloc = heap_alloc, .free = heap_free, .context = &radix->heap};
    int rc = cell_init(
        &radix->store, limits->bytes_max - fixed,
        limits->allocator != NULL ? allocator : &radix->heap_allocator);
    if (rc != 0) {
        allocator->free(allocator->context, radix, fixed);
        return rc;
    }
    radix->depth_max = limits->depth_max;
    radix->namespaces_max = limits->namespaces_max;
    radix->qsbr = qsbr;
    radix->allocator = allocator;
    radix->fixed_bytes = fixed;
    radix->room_wanted = limits->bytes_max / ROOM_SHARE;
    radix->step = (struct radix_step *)(void *)(radix + 1);
    for (uint32_t i = 0; i < LIMBOS; i++) {
        radix->limbo[i].radix = radix;
    }
    *out = radix;
    return 0;
}

void
radix_free(struct radix *radix)
{
    if (radix == NULL) {
        return;
    }
    (void)qsbr_reclaim(radix->qsbr);
    for (uint32_t i = 0; i < LIMBOS; i++) {
        CHECK(!radix->limbo[i].busy);
    }
    cell_fini(&radix->store);
    page_heap_fini(&radix->heap);
    radix->allocator->free(radix->allocator->context, radix,
                           radix->fixed_bytes);
}

void
radix_tick(struct radix *radix, uint64_t now_us)
{
    radix->clock = now_us > radix->clock ? now_us : radix->clock + 1;
    CHECK(radix->clock <= STAMP_MAX);
}

uint32_t
radix_plan_alloc(struct radix *radix, size_t size)
{
    uint32_t ref = cell_alloc(&radix->store, size);

    CHECK(size >= sizeof(struct cell));
    if (ref != CELL_NONE) {
        struct cell *cell = cell_at(&radix->store, ref);
        cell->link = radix->plan;
        radix->plan = ref;
    }
    return ref;
}

uint32_t
radix_record_new(struct radix *radix, const struct radix_record *as)
{
    uint32_t ref = radix_plan_alloc(radix, sizeof(struct radix_record));

    CHECK(as->worker < WORKERS_MAX);
    if (ref != CELL_NONE) {
        struct radix_record *record = record_at(radix, ref);
        struct cell cell = record->cell;
        *record = *as;
        record->cell = cell;
        record->place[BY_POLICY] = ORDER_NOWHERE;
        record->place[BY_RECENCY] = ORDER_NOWHERE;
    }
    return ref;
}

void
radix_plan_done(struct radix *radix)
{
    radix->plan = CELL_NONE;
}

/* Frees a chain of objects, and returns their bytes. */
static size_t
free_chain(struct radix *radix, uint32_t ref)
{
    size_t bytes = 0;

    while (ref != CELL_NONE) {
        const struct cell *cell = cell_at(&radix->store, ref);
        uint32_t next = cell->link;
        bytes += cell_size(&radix->store, ref);
        cell_free(&radix->store, ref);
        ref = next;
    }
    return bytes;
}

void
radix_plan_abort(struct radix *radix)
{
    (void)free_chain(radix, radix->plan);
    radix->plan = CELL_NONE;
    CHECK_SLOW(radix->limbo_bytes <= radix->store.used_bytes);
}

/*
 * Retired objects are chained by their heads, which no reader reads, and go to
 * the qsbr as one. So retiring takes no memory, and one qsbr node serves all
 * that an insert has replaced. While every limbo is with the qsbr, the chain
 * grows until one comes back.
 */
void
radix_retire(struct radix *radix, uint32_t ref)
{
    struct cell *cell = cell_at(&radix->store, ref);

    CHECK(ref != CELL_NONE && (ref & FAN_TAG) == 0);
    cell->link = radix->limbo_open;
    radix->limbo_open = ref;
    radix->limbo_bytes += cell_size(&radix->store, ref);
    CHECK(radix->limbo_bytes <= radix->store.used_bytes);
}

static void
limbo_free(struct qsbr_node *node)
{
    struct limbo *limbo =
        (struct limbo *)(void *)((char *)node - offsetof(struct limbo, node));
    struct radix *radix = limbo->radix;

    CHECK(limbo->busy && limbo->first != CELL_NONE);
    radix->limbo_bytes -= free_chain(radix, limbo->first);
    limbo->first = CELL_NONE;
    limbo->busy = false;
}

void
radix_limbo_flush(struct radix *radix)
{
    CHECK(radix->plan == CELL_NONE);
    for (uint32_t i = 0; i < LIMBOS && radix->limbo_open != CELL_NONE; i++) {
        struct limbo *limbo = &radix->limbo[i];
        if (!limbo->busy) {
            limbo->first = radix->limbo_open;
            limbo->busy = true;
            radix->limbo_open = CELL_NONE;
            qsbr_retire(radix->qsbr, &limbo->node, limbo_free);
        }
    }
}

void
radix_reclaim(struct radix *radix)
{
    radix_limbo_flush(radix);
    (void)qsbr_reclaim(radix->qsbr);
}

/* Publishes the word of the live set that changed. */
static void
publish_live(struct radix *radix, uint32_t worker)
{
    CHECK(worker < WORKERS_MAX);
    atomic_store_explicit(&radix->alive[worker / 64],
                          radix->live.word[worker / 64], memory_order_release);
}

/* Orders a worker's leaves by another policy. */
static int
change_eviction(struct radix *radix, uint32_t worker,
                enum radix_eviction eviction)
{
    struct radix_worker *w = &radix->worker[worker];
    struct radix_worker old = *w;
    uint32_t leaves = old.order[BY_POLICY].count;

    CHECK(w->state == WORKER_LIVE && w->eviction != eviction);
    order_init(&w->order[BY_POLICY], BY_POLICY);
    order_init(&w->order[BY_RECENCY], BY_RECENCY);
    w->eviction = eviction;
    if (!radix_leaf_reserve(radix, worker, leaves)) {
        order_fini(&w->order[BY_POLICY], &radix->store);
        order_fini(&w->order[BY_RECENCY], &radix->store);
        *w = old;
        return cell_starved(&radix->store) ? -ENOMEM : RADIX_E_FULL;
    }
    for (uint32_t i = 0; i < leaves; i++) {
        uint32_t ref = order_record(&old.order[BY_POLICY], &radix->store, i);
        record_at(radix, ref)->place[BY_POLICY] = ORDER_NOWHERE;
        record_at(radix, ref)->place[BY_RECENCY] = ORDER_NOWHERE;
        radix_leaf_add(radix, worker, ref);
    }
    order_fini(&old.order[BY_POLICY], &radix->store);
    order_fini(&old.order[BY_RECENCY], &radix->store);
    return 0;
}

int
radix_worker_add(struct radix *radix, uint32_t worker, uint64_t blocks_max,
                 enum radix_eviction eviction)
{
    CHECK(worker < WORKERS_MAX);
    struct radix_worker *w = &radix->worker[worker];

    if (w->state == WORKER_DEAD) {
        return RADIX_E_FULL;
    }
    CHECK(w->state != WORKER_FREE || w->blocks == 0);
    if (w->state == WORKER_FREE) {
        *w = (struct radix_worker){.state = WORKER_LIVE, .eviction = eviction};
        order_init(&w->order[BY_POLICY], BY_POLICY);
        order_init(&w->order[BY_RECENCY], BY_RECENCY);
        worker_set_add(&radix->live, worker);
        publish_live(radix, worker);
    } else if (w->eviction != eviction) {
        int rc = change_eviction(radix, worker, eviction);
        if (rc != 0) {
            return rc;
        }
    }
    w->blocks_max = blocks_max;
    if (w->blocks > blocks_max) {
        worker_set_add(&radix->over, worker);
    }
    return 0;
}

void
radix_worker_remove(struct radix *radix, uint32_t worker)
{
    CHECK(worker < WORKERS_MAX);
    struct radix_worker *w = &radix->worker[worker];

    if (w->state == WORKER_LIVE) {
        worker_set_remove(&radix->live, worker);
        publish_live(radix, worker);
        w->state = WORKER_DEAD;
        worker_set_add(&radix->dead, worker);
        worker_set_remove(&radix->over, worker);
    }
}

/* Takes one step of the sweep. After the last step the slot is free again. */
static void
sweep(struct radix *radix, uint32_t worker)
{
    struct radix_worker *w = &radix->worker[worker];

    CHECK(w->state == WORKER_DEAD);
    if (!radix_evict_dead(radix, worker)) {
        CHECK(w->blocks == 0);
        order_fini(&w->order[BY_POLICY], &radix->store);
        order_fini(&w->order[BY_RECENCY], &radix->store);
        w->state = WORKER_FREE;
        worker_set_remove(&radix->dead, worker);
    }
}

bool
radix_evict_any(struct radix *radix)
{
    uint32_t worker = worker_set_next(&radix->dead, 0);

    CHECK(radix->plan == CELL_NONE);
    if (worker != WORKER_NONE) {
        sweep(radix, worker);
        return true;
    }
    return radix_evict_oldest(radix);
}

size_t
radix_live_bytes(const struct radix *radix)
{
    CHECK(radix->limbo_bytes <= radix->store.used_bytes);
    return radix->store.used_bytes - radix->limbo_bytes;
}

/* True when less than the wanted room is free or about to be freed. */
static bool
pressed(const struct radix *radix)
{
    return cell_room(&radix->store) + radix->limbo_bytes < radix->room_wanted;
}

/* Takes one step of the most urgent work. False: there is none. */
static bool
work_step(struct radix *radix)
{
    uint32_t over = worker_set_next(&radix->over, 0);

    CHECK_SLOW(over == WORKER_NONE || worker_set_has(&radix->live, over));
    if (!worker_set_empty(&radix->dead)) {
        return radix_evict_any(radix);
    }
    if (over != WORKER_NONE) {
        radix_evict_worker(radix, over, CELL_NONE, 1);
        return true;
    }
    return pressed(radix) && radix_evict_oldest(radix);
}

bool
radix_work(struct radix *radix, uint32_t budget, uint64_t now_us)
{
    bool more = true;

    CHECK(radix->plan == CELL_NONE);
    radix->clock = now_us > radix->clock ? now_us : radix->clock;
    while (budget-- > 0 && more) {
        more = work_step(radix);
    }
    radix_reclaim(radix);
    return more;
}

void
radix_stats(const struct radix *radix, struct radix_stats *stats)
{
    uint32_t worker;
    uint64_t oldest = radix_oldest(radix, &worker);

    *stats = radix->stats;
    stats->bytes = radix->fixed_bytes + cell_bytes(&radix->store);
    stats->bytes_used =
        radix->fixed_bytes + radix->store.fixed_bytes + radix->store.used_bytes;
    stats->bytes_retired = radix->limbo_bytes;
    stats->oldest_us = oldest == UINT64_MAX ? 0 : oldest;
    CHECK(stats->bytes_used <= stats->bytes);
}

uint64_t
radix_worker_blocks(const struct radix *radix, uint32_t worker)
{
    CHECK(worker < WORKERS_MAX);
    const struct radix_worker *w = &radix->worker[worker];
    return w->state == WORKER_LIVE ? w->blocks : 0;
}
