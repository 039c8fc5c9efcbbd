/* One request of a gateway: its begin, what comes of it, and its end. */
#include <stdlib.h>

#include "node/edge/picking_internal.h"

#define NAMES_MAX ((size_t)64 << 10) /* of a subset: 256 workers, and more */

/* Its begin and end */

struct pick *
pick_new(struct picker *picker, struct h2_call *call)
{
    struct lane *lane = picker->lane;
    bool full = lane->picks_count >= lane->limits.inflight_max;
    struct pick *pick = full ? NULL : calloc(1, sizeof *pick);

    counter_bump(&lane->shared->metrics.extproc_streams, 1);
    if (pick == NULL) {
        counter_bump(&lane->shared->metrics.extproc_answered, 1);
        return NULL;
    }
    pick->picker = picker;
    pick->call = call;
    pick->lane = lane;
    pick->quota = picker->quota;
    pick->next = picker->picks;
    pick->prev = &picker->picks;
    if (pick->next != NULL) {
        pick->next->prev = &pick->next;
    }
    picker->picks = pick;
    lane->picks_count++;
    buf_init(&pick->text, lane->limits.head_bytes_max + EDGE_ADDED_BYTES);
    buf_init(&pick->answer, PICK_ANSWER_MAX);
    buf_init(&pick->names, NAMES_MAX);
    return pick;
}

static void ON_LANE
give_in(struct pick *pick)
{
    if (pick->in != NULL) {
        lane_memory_give(&pick->lane->memory, pick->quota, pick->in,
                         pick->in_size);
        pick->in = NULL;
    }
    pick->in_at = pick->in_len = 0;
}

void
pick_check(struct pick *pick)
{
    struct lane *lane = pick->lane;

    if (pick->call != NULL || pick->front.alive || pick->back.alive) {
        return;
    }
    if (pick->client != NULL) {
        pick->client->pick = NULL;
    }
    give_in(pick);
    buf_fini(&pick->text);
    buf_fini(&pick->answer);
    buf_fini(&pick->names);
    free(pick);
    CHECK(lane->picks_count != 0);
    lane->picks_count--;
    lane_check_drained(lane);
}

void
pick_drop_client(struct pick *pick)
{
    pick->state = PICK_OVER;
    if (pick->client != NULL) {
        client_close(pick->client, false);
        CHECK(pick->client == NULL);
    }
    pick_pipe_close(&pick->front);
    pick_pipe_close(&pick->back);
}

void
pick_client_gone(struct pick *pick)
{
    pick->client = NULL;
}

void
pick_finish(struct pick *pick, enum grpc_status status)
{
    pick->state = PICK_OVER;
    if (!pick->finished) {
        pick->finished = true;
        h2_finish(pick->call, status);
    }
}

/* What it holds of an answer that was whole goes its way still. */
void
pick_gone(struct pick *pick)
{
    *pick->prev = pick->next;
    if (pick->next != NULL) {
        pick->next->prev = pick->prev;
    }
    pick->call = NULL;
    pick->picker = NULL;
    if (!pick->done) {
        pick_drop_client(pick);
    }
    pick_check(pick);
}

void
pick_break_off(struct pick *pick, enum grpc_status status)
{
    counter_bump(&pick->lane->shared->metrics.extproc_faults, 1);
    pick_drop_client(pick);
    pick_finish(pick, status);
}

/* What came */

/* Once for all that were read: many may be small. No pipe waits. */
static void
drop_read(struct pick *pick)
{
    if (pick->in_at != 0) {
        pick->in_len -= pick->in_at;
        memmove(pick->in, pick->in + pick->in_at, pick->in_len);
        pick->in_at = 0;
    }
}

/* A message that is here whole, behind the one that was held. False: there is
 * none. */
static bool ON_LANE
take_next(struct pick *pick)
{
    size_t max = pick->lane->limits.body_bytes_max + PICK_MESSAGE_MORE;
    struct extproc_message message;
    struct slice bytes;

    pick->in_at += pick->held;
    pick->held = 0;
    if (pick->in_at == pick->in_len) {
        give_in(pick);
        return false;
    }
    struct slice in = {pick->in + pick->in_at, pick->in_len - pick->in_at};
    switch (grpc_take(in, max, &bytes)) {
    case 0:
        break;
    case GRPC_E_MORE:
        drop_read(pick);
        return false;
    case GRPC_E_LARGE:
        if (pick->state > PICK_ASKED) { /* of the answer, in one piece */
            pick_break_off(pick, GRPC_EXHAUSTED);
            return false;
        }
        counter_bump(&pick->lane->shared->metrics.extproc_faults, 1);
        pick_refuse(pick, 413, "body_too_large",
                    "the request body is larger than limits.body_bytes_max");
        return false;
    default:
        pick_break_off(pick, GRPC_UNIMPLEMENTED);
        return false;
    }
    pick->held = GRPC_HEAD + bytes.len;
    if (extproc_read(bytes, &message) != 0) {
        pick_break_off(pick, GRPC_INVALID);
    } else if (message.observes) {
        pick_finish(pick, GRPC_OK); /* nobody asks for a worker */
    } else {
        pick_take(pick, &message);
    }
    return true;
}

/* The gateway says no more: the answer was whole, if it did not tell of bodies;
 * or else its client is gone. */
static void ON_LANE
take_end(struct pick *pick)
{
    if (pick->state == PICK_ASKED ||
        (pick->state == PICK_GIVEN && pick->body_at < pick->body_size)) {
        return; /* it is to be told yet */
    }
    if (!pick->body_seen) {
        pick_end_answer(pick);
    }
    if (!pick->done) {
        pick_drop_client(pick);
    }
    pick_finish(pick, GRPC_OK);
}

void
pick_turn(struct pick *pick)
{
    bool more = true;

    while (more && !pick->finished) {
        pick->stalled = pick_pipe_waits(&pick->front) ||
                        pick_pipe_waits(&pick->back) ||
                        h2_unsent(pick->call) >= PICK_OUT_MAX;
        if (pick->stalled) {
            return;
        }
        pick_send_body(pick);
        more = take_next(pick);
    }
    pick->stalled = pick->body_at < pick->body_size;
    h2_taken(pick->call, pick->owed);
    pick->owed = 0;
    if (pick->ended && !pick->finished) {
        take_end(pick);
    }
}

/* What waits in a pipe may be of the bytes that have moved. */
static void
move_left(struct pick_pipe *pipe, const char *from, size_t size, char *to)
{
    for (size_t i = 0; i < sizeof pipe->left / sizeof pipe->left[0]; i++) {
        struct slice *left = &pipe->left[i];
        uintptr_t at = (uintptr_t)left->ptr - (uintptr_t)from;
        if (left->len != 0 && at < size) {
            left->ptr = to + at;
        }
    }
}

/* Room for so many bytes of messages. False: a bound is reached. */
static bool ON_LANE
grow(struct pick *pick, size_t size)
{
    struct lane_memory *memory = &pick->lane->memory;
    size_t got;

    if (size <= pick->in_size && pick->in != NULL) {
        return true;
    }
    char *grown = lane_memory_take(memory, pick->quota, size, &got);
    if (grown == NULL) {
        return false;
    }
    if (pick->in != NULL) {
        memcpy(grown, pick->in, pick->in_len);
        move_left(&pick->front, pick->in, pick->in_len, grown);
        move_left(&pick->back, pick->in, pick->in_len, grown);
        lane_memory_give(memory, pick->quota, pick->in, pick->in_size);
    }
    pick->in = grown;
    pick->in_size = got;
    return true;
}

void
pick_came(struct pick *pick, struct slice bytes)
{
    pick->owed += bytes.len;
    if (pick->finished) {
        h2_taken(pick->call, pick->owed);
        pick->owed = 0;
        return;
    }
    if (!grow(pick, pick->in_len + bytes.len)) {
        pick_refuse(pick, pick->lane->memory.over_share ? 429 : 503,
                    "overloaded",
                    "limits.buffered_bytes_max or limits.client_bytes_max is "
                    "reached; try again");
        return;
    }
    memcpy(pick->in + pick->in_len, bytes.ptr, bytes.len);
    pick->in_len += bytes.len;
    pick_turn(pick);
}

void
pick_ended(struct pick *pick)
{
    pick->ended = true;
    pick_turn(pick);
}
