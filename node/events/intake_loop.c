/* The intake's thread: commands, polls, turns, its half of a snapshot. */
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "node/base/log.h"
#include "node/events/intake_internal.h"

#define TURN_MS_MAX  1000L
#define TOGETHER_MS  25U /* what is due within this of another waits for it */
#define BUSY_MS      5L  /* while the ledger has something to sweep */
#define SWEEP_BUDGET 4096U
#define TELL_US      UINT64_C(1000000)
#define SAVE_BYTES   ((size_t)256 << 10) /* of a snapshot's parts in one turn */
#define READY_MAX    64                  /* sockets that are read in one turn */

bool
intake_is_ending(const struct intake *intake)
{
    return gauge_read(&intake->ending) > 0;
}

static void
hush_bell(struct intake *intake)
{
    uint64_t rings;

    ssize_t got = read(intake->bell, &rings, sizeof rings);
    (void)got; /* nothing to read is fine */
}

/* Commands */

static void
close_source(struct intake_source *source)
{
    for (uint32_t i = 0; i < source->worker.ranks; i++) {
        struct intake_rank *rank = &source->ranks[i];
        intake_hand_drop(rank);
        intake_rank_close(rank);
        decoder_close(&rank->decoder);
    }
}

static struct intake_source **
find_source(struct intake *intake, const struct intake_command *command)
{
    struct intake_source **at = &intake->sources;

    while (*at != NULL && ((*at)->worker.slot != command->slot ||
                           (*at)->worker.generation != command->generation)) {
        at = &(*at)->next;
    }
    return at;
}

static void
open_rank(struct intake_rank *rank)
{
    if (rank->resumes) {
        rank->resumes = false;
        decoder_tell_resume(&rank->decoder);
    }
    intake_rank_open(rank);
}

static void
move_source(struct intake_source *source, const struct intake_command *command)
{
    char *moved = source->moved[command->place];

    if (strcmp(moved, command->address) != 0) {
        memcpy(moved, command->address, sizeof command->address);
        for (uint32_t i = 0; i < source->worker.ranks; i++) {
            intake_rank_moved(&source->ranks[i], command->place);
        }
    }
}

static void
take_command(struct intake *intake, const struct intake_command *command)
{
    struct intake_source **at = find_source(intake, command);
    struct intake_source *source = *at;

    switch ((enum intake_command_kind)command->kind) {
    case INTAKE_ADD:
        source = command->source;
        source->next = intake->sources;
        intake->sources = source;
        for (uint32_t i = 0; i < source->worker.ranks; i++) {
            open_rank(&source->ranks[i]);
        }
        break;
    case INTAKE_REMOVE:
        if (source != NULL) {
            *at = source->next;
            close_source(source);
            intake_source_free(source);
        }
        break;
    case INTAKE_REREAD:
        if (source != NULL && command->rank < source->worker.ranks) {
            if (!command->prove) {
                intake_hand_drop(&source->ranks[command->rank]);
            }
            intake_rank_reread(&source->ranks[command->rank], command->ask,
                               command->prove);
        }
        break;
    case INTAKE_HAND:
        intake_hand_take(intake,
                         source != NULL && command->rank < source->worker.ranks
                             ? &source->ranks[command->rank]
                             : NULL,
                         command->hand);
        break;
    case INTAKE_MOVE:
        if (source != NULL) {
            move_source(source, command);
        }
        break;
    case INTAKE_FORGET:
        ledger_close(intake->tools.ledger, command->ledger_stream);
        break;
    }
}

static void
take_commands(struct intake *intake)
{
    const struct intake_command *command;
    size_t size;

    hush_bell(intake);
    while ((command = ring_peek(&intake->commands, &size)) != NULL) {
        struct intake_command copy = *command;
        ring_consume(&intake->commands);
        take_command(intake, &copy);
    }
}

/* Waiting */

/* What is due next on any rank. */
static uint64_t
deadline(const struct intake *intake)
{
    uint64_t due_us = UINT64_MAX;

    for (struct intake_source *s = intake->sources; s != NULL; s = s->next) {
        for (uint32_t i = 0; i < s->worker.ranks; i++) {
            const struct intake_rank *rank = &s->ranks[i];
            uint64_t at_us = rank->look ? 0 : intake_rank_deadline(rank);
            due_us = at_us < due_us ? at_us : due_us;
        }
    }
    return due_us;
}

static int
timeout_ms(const struct intake *intake, uint64_t due_us, long most)
{
    if (due_us <= intake->now_us) {
        return 0;
    }
    uint64_t left_ms = (due_us - intake->now_us + 999) / 1000;
    left_ms = left_ms < TOGETHER_MS ? TOGETHER_MS : left_ms;
    return (int)(left_ms < (uint64_t)most ? (long)left_ms : most);
}

/* A socket that an earlier one of the same rank has closed is not read: its
 * readers know. */
static void
read_ready(const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++) {
        const struct intake_watch *watch = events[i].data.ptr;
        if (watch != NULL) { /* the bell has none */
            watch->read(watch->rank);
        }
    }
}

/* Turns */

static void
each_rank(struct intake *intake, void (*visit)(struct intake_rank *rank))
{
    for (struct intake_source *s = intake->sources; s != NULL; s = s->next) {
        for (uint32_t i = 0; i < s->worker.ranks; i++) {
            visit(&s->ranks[i]);
        }
    }
}

static void
tell_ledger(struct intake *intake)
{
    struct intake_ledger *told = &intake->ledger_told;
    struct ledger_stats stats;

    if (intake->now_us - intake->told_us < TELL_US) {
        return;
    }
    intake->told_us = intake->now_us;
    ledger_stats(intake->tools.ledger, &stats);
    counter_set(&told->bytes, stats.bytes);
    counter_set(&told->names, stats.names);
    counter_set(&told->blocks, stats.blocks);
    counter_set(&told->copies, stats.copies);
    counter_set(&told->open, stats.open);
    counter_set(&told->sweeping, stats.sweeping);
}

static void
tell_positions(struct intake *intake, uint64_t cut)
{
    for (struct intake_source *s = intake->sources; s != NULL; s = s->next) {
        for (uint32_t i = 0; i < s->worker.ranks; i++) {
            decoder_tell_position(&s->ranks[i].decoder, cut);
        }
    }
}

/* The ledger's half of a snapshot, if one is taken: how long the next turn may
 * be in coming. */
static long
save(struct intake *intake)
{
    uint64_t cut;

    if (intake->twin == NULL) {
        return TURN_MS_MAX;
    }
    switch (storage_twin_turn(intake->twin, SAVE_BYTES, &cut)) {
    case STORAGE_TWIN_ENDED:
        tell_positions(intake, cut);
        intake_emit_cut(intake, cut);
        return 0;
    case STORAGE_TWIN_BUSY:
        return 0;
    case STORAGE_TWIN_WAITS:
        return BUSY_MS;
    case STORAGE_TWIN_NOTHING:
        break;
    }
    return TURN_MS_MAX;
}

/* A thread that was stopped may have missed anything: another engine may be at
 * the other end of seemingly unchanged connections. */
static void
see_the_time(struct intake *intake)
{
    intake->now_us = intake_now_us();
    if (intake->now_us - intake->turn_us > INTAKE_GAP_US) {
        LOG_WARNING("events_thread_slept",
                    KV("ms", (intake->now_us - intake->turn_us) / 1000),
                    KV("hint", "the process stood still; engines are connected "
                               "anew and asked for what was missed. If it "
                               "repeats, give the node more of the processor"));
        each_rank(intake, intake_rank_suspend);
    }
    intake->turn_us = intake->now_us;
}

static void
run(struct intake *intake)
{
    struct epoll_event ready[READY_MAX];

    while (!intake_is_ending(intake)) {
        see_the_time(intake);
        take_commands(intake);
        each_rank(intake, intake_rank_turn);
        long wait_ms = save(intake);
        if (intake_hand_turn(intake)) {
            wait_ms = 0;
        }
        if (ledger_work(intake->tools.ledger, SWEEP_BUDGET)) {
            wait_ms = wait_ms < BUSY_MS ? wait_ms : BUSY_MS;
        }
        tell_ledger(intake);
        intake_emit_wake(intake);
        int count = epoll_wait(intake->epoll, ready, READY_MAX,
                               timeout_ms(intake, deadline(intake), wait_ms));
        see_the_time(intake);
        read_ready(ready, count);
        each_rank(intake, intake_rank_look);
        intake_emit_wake(intake);
    }
}

void
intake_thread(void *arg)
{
    struct intake *intake = arg;

    intake->turn_us = intake_now_us();
    run(intake);
    for (struct intake_source *s = intake->sources; s != NULL; s = s->next) {
        close_source(s); /* control frees it once we are gone */
    }
    if (intake->twin != NULL) {
        storage_twin_leave(intake->twin);
    }
}
