/* A JetStream stream, asked as an engine's replay socket is. */
#include "node/events/nats_replay_internal.h"

#include <inttypes.h>
#include <stdio.h>

#include "node/text/json_out.h"
#include "node/text/json_pull.h"

#define WORDS_BYTES   1024U
#define INBOX_SIZE    (NATS_REPLAY_INBOX_MAX + 24)
#define NO_RESPONDERS 503U /* nobody answers there */
#define NO_MESSAGES   404U
#define FETCH_TIMEOUT 408U
#define BEHIND        "the stream does not have what was told live"
#define INACTIVE_NS   UINT64_C(10000000000)

static enum nats_replay_outcome
failed(struct nats_replay *replay, const char *why)
{
    replay->stage = NATS_REPLAY_IDLE;
    if (why != replay->why) {
        (void)snprintf(replay->why, sizeof replay->why, "%s", why);
    }
    return NATS_REPLAY_FAILED;
}

static enum nats_replay_outcome
ended(struct nats_replay *replay)
{
    replay->stage = NATS_REPLAY_IDLE;
    return NATS_REPLAY_END;
}

/* Asking */

static void
ask(struct nats_replay *replay, const char *api, bool of_consumer,
    struct slice payload, struct buf *out)
{
    char bytes[WORDS_BYTES];
    char inbox[INBOX_SIZE];
    struct buf subject = buf_over(bytes, sizeof bytes);

    buf_add_text(&subject, api);
    buf_add_slice(&subject, replay->stream);
    if (of_consumer) {
        buf_add_text(&subject, ".");
        buf_add_text(&subject, replay->consumer);
    }
    CHECK(!subject.failed); /* a path and a name at most */
    (void)snprintf(inbox, sizeof inbox, "%s.%" PRIu64, replay->inbox,
                   replay->sid);
    nats_wire_ask(out, buf_slice(&subject), inbox, payload);
}

/* A new subscription, in place of the one before, and a consumer whose answers
 * go there. start: of its messages; 0: the last one alone. */
static void
make_consumer(struct nats_replay *replay, uint64_t start, struct buf *out)
{
    char bytes[WORDS_BYTES];
    struct buf payload = buf_over(bytes, sizeof bytes);
    struct json_out json;

    if (replay->sid != 0) {
        buf_printf(out, "UNSUB %" PRIu64 "\r\n", replay->sid);
    }
    replay->sid++;
    buf_printf(out, "SUB %s.%" PRIu64 " %" PRIu64 "\r\n", replay->inbox,
               replay->sid, replay->sid);
    json_out_init(&json, &payload);
    json_out_object_begin(&json);
    json_out_put_slice(&json, "stream_name", replay->stream);
    json_out_key(&json, "config");
    json_out_object_begin(&json);
    json_out_put_text(&json, "ack_policy", "none");
    json_out_put_slice(&json, "filter_subject", replay->subject);
    json_out_put_text(&json, "deliver_policy",
                      start != 0 ? "by_start_sequence" : "last");
    if (start != 0) {
        json_out_put_uint(&json, "opt_start_seq", start);
    }
    json_out_put_text(&json, "replay_policy", "instant");
    json_out_put_bool(&json, "headers_only", start == 0);
    json_out_put_uint(&json, "inactive_threshold", INACTIVE_NS);
    json_out_put_bool(&json, "mem_storage", true);
    json_out_object_end(&json);
    json_out_object_end(&json);
    CHECK(!payload.failed); /* a path at most, which has nothing to escape */
    ask(replay, "$JS.API.CONSUMER.CREATE.", false, buf_slice(&payload), out);
}

static void
fetch(struct nats_replay *replay, uint64_t left, struct buf *out)
{
    char payload[64];

    replay->fetched =
        left < NATS_REPLAY_FETCH ? (uint32_t)left : NATS_REPLAY_FETCH;
    int len =
        snprintf(payload, sizeof payload,
                 "{\"batch\":%" PRIu32 ",\"no_wait\":true}", replay->fetched);
    ask(replay, "$JS.API.CONSUMER.MSG.NEXT.", true,
        (struct slice){payload, (size_t)len}, out);
}

void
nats_replay_ask(struct nats_replay *replay, uint64_t from, const char *life,
                uint64_t seq, struct buf *out)
{
    CHECK(strlen(life) < sizeof replay->live);
    memcpy(replay->live, life, strlen(life) + 1);
    replay->live_seq = seq;
    replay->from = from;
    replay->stage = NATS_REPLAY_LAST;
    replay->over = false;
    make_consumer(replay, 0, out);
}

/* Answers */

static bool
read_error(struct json_pull *pull, struct nats_replay *replay)
{
    if (json_pull_next(pull) != PULL_OBJECT) {
        return false;
    }
    enum pull_token token = json_pull_next(pull);
    for (; token == PULL_KEY; token = json_pull_next(pull)) {
        if (!json_pull_is(pull, SLICE("description"))) {
            if (!json_pull_skip(pull)) {
                return false;
            }
        } else if (json_pull_next(pull) != PULL_STRING ||
                   json_pull_copy(pull, replay->why, sizeof replay->why) < 0) {
            return false;
        }
    }
    return token == PULL_OBJECT_END;
}

/* The name of the consumer that was made, and what it has; or why it was not:
 * then the name is "". False: that is no such answer. */
static bool
read_made(struct nats_replay *replay, struct slice text, uint64_t *left)
{
    struct json_pull pull;

    *left = 0;
    replay->consumer[0] = '\0';
    (void)snprintf(replay->why, sizeof replay->why, "a consumer was refused");
    json_pull_init(&pull, text);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return false;
    }
    enum pull_token token = json_pull_next(&pull);
    for (; token == PULL_KEY; token = json_pull_next(&pull)) {
        bool good = true;
        if (json_pull_is(&pull, SLICE("error"))) {
            good = read_error(&pull, replay);
        } else if (json_pull_is(&pull, SLICE("name"))) {
            good = json_pull_next(&pull) == PULL_STRING &&
                   json_pull_copy(&pull, replay->consumer,
                                  sizeof replay->consumer) > 0;
        } else if (json_pull_is(&pull, SLICE("num_pending"))) {
            good = json_pull_next(&pull) == PULL_NUMBER &&
                   json_pull_uint(&pull, UINT64_MAX, left);
        } else {
            good = json_pull_skip(&pull);
        }
        if (!good) {
            return false;
        }
    }
    return token == PULL_OBJECT_END;
}

/* It goes into a subject. */
static bool
is_name(const char *name)
{
    return name[0] != '\0' && strpbrk(name, " \t\r\n") == NULL;
}

static enum nats_replay_outcome
take_made(struct nats_replay *replay, const struct nats_said *said,
          struct buf *out)
{
    uint64_t left;

    if (!read_made(replay, said->payload, &left)) {
        return failed(replay, "its answer is none of JetStream's");
    }
    if (!is_name(replay->consumer)) {
        return failed(replay, replay->why);
    }
    if (left == 0) {
        return replay->from != 0 && replay->live[0] != '\0'
                   ? failed(replay, BEHIND)
                   : ended(replay);
    }
    replay->stage = replay->stage == NATS_REPLAY_LAST ? NATS_REPLAY_FIND
                                                      : NATS_REPLAY_FIRST;
    fetch(replay, 1, out);
    return NATS_REPLAY_WAITS;
}

static uint64_t
start_of(const struct nats_replay *replay)
{
    return replay->last_at > replay->back ? replay->last_at - replay->back : 1;
}

static enum nats_replay_outcome
take_last(struct nats_replay *replay, struct slice life, uint64_t seq,
          const struct nats_place *place, struct buf *out)
{
    if (replay->bad_batch) {
        return failed(replay, "the subject's last message has no "
                              "Nats-Msg-Id of LIFE-SEQ");
    }
    memcpy(replay->life, life.ptr, life.len);
    replay->life[life.len] = '\0';
    if (seq < replay->from) { /* a life that is not as far yet, or is cut off */
        return strcmp(replay->life, replay->live) == 0 && seq < replay->live_seq
                   ? failed(replay, BEHIND)
                   : ended(replay);
    }
    replay->last_at = place->at;
    replay->back = seq - replay->from;
    replay->stage = NATS_REPLAY_MAKE;
    make_consumer(replay, start_of(replay), out);
    return NATS_REPLAY_WAITS;
}

/* It begins too late, and could begin earlier. */
static bool
is_late(const struct nats_replay *replay, bool ours, uint64_t seq)
{
    return replay->stage == NATS_REPLAY_FIRST && ours && seq > replay->from &&
           start_of(replay) > 1;
}

static enum nats_replay_outcome
take_batch(struct nats_replay *replay, struct slice life, uint64_t seq,
           const struct nats_place *place, struct buf *out)
{
    bool ours = !replay->bad_batch && slice_equal(life, slice_of(replay->life));

    if (is_late(replay, ours, seq)) {
        replay->back = replay->back < UINT64_MAX / 4 ? replay->back * 2 + 1
                                                     : UINT64_MAX / 2;
        replay->stage = NATS_REPLAY_MAKE;
        make_consumer(replay, start_of(replay), out);
        return NATS_REPLAY_WAITS;
    }
    if (!replay->bad_batch) {
        replay->stage = NATS_REPLAY_READ;
    }
    replay->fetched -= replay->fetched != 0;
    replay->over = place->left == 0;
    if (!replay->over && replay->fetched == 0) {
        fetch(replay, place->left, out);
    }
    if (ours && seq >= replay->from) {
        replay->seq = seq;
        replay->stage = replay->over ? NATS_REPLAY_IDLE : replay->stage;
        return NATS_REPLAY_BATCH;
    }
    return replay->over ? ended(replay) : NATS_REPLAY_WAITS;
}

/* A message without one: the server has none, or nobody is there. */
static enum nats_replay_outcome
take_status(struct nats_replay *replay, uint32_t status)
{
    if (status == NO_MESSAGES || status == FETCH_TIMEOUT) {
        return ended(replay); /* what it had was deleted meanwhile */
    }
    if (status == NO_RESPONDERS) {
        return failed(replay, "the server has no JetStream");
    }
    (void)snprintf(replay->why, sizeof replay->why, "JetStream says %" PRIu32,
                   status);
    return failed(replay, replay->why);
}

enum nats_replay_outcome
nats_replay_take(struct nats_replay *replay, const struct nats_said *said,
                 struct buf *out)
{
    struct slice life = {"", 0};
    struct nats_place place;
    uint64_t seq = 0;

    CHECK(said->op == NATS_MSG);
    replay->bad_batch = false;
    if (replay->stage == NATS_REPLAY_IDLE || said->sid != replay->sid) {
        return NATS_REPLAY_WAITS; /* of a question before */
    }
    uint32_t status = nats_wire_status(said->headers);
    if (status != 0) {
        return take_status(replay, status);
    }
    if (replay->stage == NATS_REPLAY_LAST ||
        replay->stage == NATS_REPLAY_MAKE) {
        return take_made(replay, said, out);
    }
    if (!nats_wire_place(said->reply, &place)) {
        return failed(replay, "a message does not say its place");
    }
    replay->bad_batch = !nats_wire_batch(said->headers, &life, &seq);
    return replay->stage == NATS_REPLAY_FIND
               ? take_last(replay, life, seq, &place, out)
               : take_batch(replay, life, seq, &place, out);
}
