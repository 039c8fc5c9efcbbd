/*
 * The ledger as a whole: its streams, background work, numbers.
 */
#include "index/ledger.h"

#include <errno.h>
#include <stdlib.h>

#include "index/ledger_internal.h"

static int
init(struct ledger *l)
{
    int rc = ledger_pool_init(l, &l->entries, sizeof(struct entry));

    if (rc == 0) {
        rc = ledger_pool_init(l, &l->sets, sizeof(struct worker_set));
    }
    return rc;
}

int
ledger_new(struct ledger **out, const struct ledger_limits *limits)
{
    CHECK(out != NULL);
    if (limits->bytes_max < sizeof(struct ledger)) {
        return -EINVAL;
    }
    struct ledger *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        return -ENOMEM;
    }
    l->bytes = sizeof(*l);
    l->bytes_max = limits->bytes_max;
    int rc = init(l);
    if (rc != 0) {
        ledger_free(l);
        return rc == LEDGER_E_FULL ? -EINVAL : rc;
    }
    *out = l;
    return 0;
}

void
ledger_free(struct ledger *ledger)
{
    struct ledger *l = ledger;

    if (l == NULL) {
        return;
    }
    ledger_pool_fini(l, &l->entries);
    ledger_pool_fini(l, &l->sets);
    ledger_names_fini(l);
    ledger_rows_fini(l, &l->copies);
    ledger_rows_fini(l, &l->kids);
    ledger_give(l, l->scratch, l->scratch_len * sizeof(uint32_t));
    CHECK(l->bytes == sizeof(*l));
    page_heap_fini(&l->heap);
    free(l);
}

int
ledger_open(struct ledger *ledger, uint32_t *stream)
{
    CHECK(stream != NULL);
    for (uint32_t i = 0; i < LEDGER_STREAMS_MAX; i++) {
        struct stream *st = &ledger->stream[i];
        if (st->state == STREAM_FREE) {
            *st = (struct stream){.state = STREAM_OPEN};
            *stream = i;
            watch_tell(ledger->watch, watch_op(WATCH_OPEN, i, 0));
            return 0;
        }
    }
    return LEDGER_E_FULL;
}

void
ledger_close(struct ledger *ledger, uint32_t stream)
{
    CHECK(stream < LEDGER_STREAMS_MAX);
    struct stream *st = &ledger->stream[stream];

    CHECK(st->state == STREAM_OPEN);
    st->state = st->blocks == 0 ? STREAM_FREE : STREAM_CLOSED;
    watch_tell(ledger->watch, watch_op(WATCH_CLOSE, stream, 0));
}

/* ---- background work ---- */

/* Moves all streams in one state to another. True when there were any. */
static bool
turn(struct ledger *l, enum stream_state from, enum stream_state to)
{
    bool any = false;

    CHECK(from != to);
    for (uint32_t i = 0; i < LEDGER_STREAMS_MAX; i++) {
        if (l->stream[i].state == from) {
            l->stream[i].state = to;
            any = true;
        }
    }
    return any;
}

static void
sweep_start(struct ledger *l)
{
    CHECK(l->cursor <= l->entries.fresh);
    if (l->cursor == 0 &&
        (turn(l, STREAM_CLOSED, STREAM_SWEEPING) || l->litter)) {
        l->litter = false;
        l->cursor = 1;
    }
}

static bool
swept(const struct ledger *l, uint32_t stream)
{
    return l->stream[stream].state == STREAM_SWEEPING;
}

static void
sweep_entry(struct ledger *l, uint32_t ref)
{
    const struct entry *entry = entry_at(l, ref);

    CHECK(ref != REF_NONE && ref < l->entries.fresh);
    if (entry->link == 0) {
        return;
    }
    if (entry->holders == 0) {
        ledger_release(l, ref);
        return;
    }
    if ((entry->holders & 3) == 1) { /* one holder, as most have: no set */
        uint32_t stream = holders_inline(entry->holders, 0);
        if (swept(l, stream)) {
            ledger_leave(l, ref, stream);
        }
        return;
    }
    struct worker_set set = ledger_holders_set(l, entry->holders);
    WORKER_SET_EACH (stream, &set) {
        if (swept(l, stream)) {
            ledger_leave(l, ref, stream);
        }
    }
}

bool
ledger_work(struct ledger *ledger, uint32_t budget)
{
    struct ledger *l = ledger;
    uint32_t left = budget;

    sweep_start(l);
    for (; l->cursor != 0 && l->cursor < l->entries.fresh && left > 0; left--) {
        sweep_entry(l, l->cursor++);
    }
    if (l->cursor >= l->entries.fresh && l->cursor != 0) {
        (void)turn(l, STREAM_SWEEPING, STREAM_FREE);
        l->cursor = 0;
        sweep_start(l);
    }
    ledger_names_tidy(l);
    ledger_rows_tidy(l, &l->copies);
    ledger_rows_tidy(l, &l->kids);
    return l->cursor != 0 || left == 0;
}

/* ---- numbers ---- */

bool
ledger_key(const struct ledger *ledger, uint32_t stream, uint64_t hash,
           uint64_t *key)
{
    CHECK(stream < LEDGER_STREAMS_MAX);
    CHECK(ledger->stream[stream].state == STREAM_OPEN);
    uint32_t ref = ledger_held(ledger, stream, hash);

    *key = ref != REF_NONE ? entry_at(ledger, ref)->key : 0;
    return ref != REF_NONE;
}

uint64_t
ledger_blocks(const struct ledger *ledger, uint32_t stream)
{
    CHECK(ledger->stream[stream].state == STREAM_OPEN);
    CHECK(stream < LEDGER_STREAMS_MAX);
    return ledger->stream[stream].blocks;
}

uint32_t
ledger_holes(const struct ledger *ledger, uint32_t stream)
{
    CHECK(ledger->stream[stream].state == STREAM_OPEN);
    CHECK(stream < LEDGER_STREAMS_MAX);
    return ledger->stream[stream].holes;
}

void
ledger_stats(const struct ledger *ledger, struct ledger_stats *stats)
{
    *stats = (struct ledger_stats){.bytes = ledger->bytes,
                                   .names = ledger->entries.used};
    for (uint32_t i = 0; i < LEDGER_STREAMS_MAX; i++) {
        const struct stream *st = &ledger->stream[i];
        if (st->state == STREAM_OPEN) {
            stats->open++;
            stats->blocks += st->blocks;
            stats->copies += st->copies;
        } else if (st->state != STREAM_FREE) {
            stats->sweeping++;
        }
    }
    CHECK(stats->bytes <= ledger->bytes_max);
    CHECK(stats->open + stats->sweeping <= LEDGER_STREAMS_MAX);
}
