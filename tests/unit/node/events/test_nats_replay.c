#include "node/events/nats_replay_internal.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A stream: each message's life, number, and whether it is of our subject. */
struct message {
    const char *life; /* NULL: of another subject; "": it does not say */
    uint64_t seq;
};

#define MESSAGES_MAX 2000

static struct message stream[MESSAGES_MAX]; /* [0] has number 1 */
static uint64_t count;
static uint64_t first; /* the first number that it still has */
static uint64_t at;    /* of the consumer: its next message's number */
static unsigned made;  /* consumers */
static unsigned fetches;
static struct nats_replay replay;
static char words[4096];
static struct buf out;
static char got[20000]; /* what came, in words */

static void
setup(void)
{
    count = 0;
    first = 1;
    at = made = fetches = 0;
    got[0] = '\0';
    replay = (struct nats_replay){
        .stream = SLICE("KV"), .subject = SLICE("kv.a"), .inbox = "_INBOX.me"};
}

TestSuite(node_nats_replay, .init = setup);

static void
add(const char *life, uint64_t seq)
{
    stream[count++] = (struct message){life, seq};
}

static uint64_t
left_from(uint64_t number)
{
    uint64_t left = 0;

    for (; number <= count; number++) {
        left += stream[number - 1].life != NULL;
    }
    return left;
}

static uint64_t
number_after(const char *key)
{
    const char *found = strstr(words, key);

    return found != NULL ? strtoull(found + strlen(key), NULL, 10) : 0;
}

static enum nats_replay_outcome
answer(const char *reply, const char *headers, const char *payload)
{
    struct nats_said said = {.op = NATS_MSG,
                             .sid = replay.sid,
                             .reply = slice_of(reply),
                             .headers = slice_of(headers),
                             .payload = slice_of(payload)};

    out.len = 0;
    enum nats_replay_outcome outcome = nats_replay_take(&replay, &said, &out);
    cr_assert_not(out.failed);
    words[out.len] = '\0';
    return outcome;
}

/* Makes the consumer that the words ask for. */
static enum nats_replay_outcome
make(void)
{
    char text[100];

    made++;
    at = number_after("\"opt_start_seq\":");
    if (at == 0) {
        cr_assert_not_null(strstr(words, "\"deliver_policy\":\"last\""));
        at = count;
        while (at >= first && stream[at - 1].life == NULL) {
            at--;
        }
        at = at < first ? count + 1 : at;
    }
    at = at < first ? first : at;
    (void)snprintf(text, sizeof text,
                   "{\"type\":\"x\",\"name\":\"c%u\",\"num_pending\":%" PRIu64
                   "}",
                   made, left_from(at));
    return answer("", "", text);
}

static enum nats_replay_outcome
deliver(void)
{
    char reply[100];
    char headers[100] = "";

    while (stream[at - 1].life == NULL) {
        at++;
    }
    (void)snprintf(reply, sizeof reply,
                   "$JS.ACK.KV.c%u.1.%" PRIu64 ".1.17.%" PRIu64, made, at,
                   left_from(at + 1));
    if (stream[at - 1].life[0] != '\0') {
        (void)snprintf(headers, sizeof headers,
                       "NATS/1.0\r\nNats-Msg-Id: %s-%" PRIu64 "\r\n\r\n",
                       stream[at - 1].life, stream[at - 1].seq);
    }
    at++;
    return answer(reply, headers, "batch");
}

static void
note(const char *what)
{
    size_t len = strlen(got);

    (void)snprintf(got + len, sizeof got - len, "%s", what);
}

static void
note_seq(uint64_t seq)
{
    size_t len = strlen(got);

    (void)snprintf(got + len, sizeof got - len, "%" PRIu64 " ", seq);
}

/* Plays the server to the end: what came, in words. live: the last message that
 * came live. */
static const char *
asked_after(uint64_t from, const char *life, uint64_t live)
{
    enum nats_replay_outcome outcome = NATS_REPLAY_WAITS;
    uint64_t due = 0;

    out = buf_over(words, sizeof words - 1);
    nats_replay_ask(&replay, from, life, live, &out);
    words[out.len] = '\0';
    got[0] = '\0';
    for (unsigned turn = 0;; turn++) {
        cr_assert_lt(turn, 10000, "it does not end");
        if (strstr(words, "CONSUMER.CREATE.KV ") != NULL) {
            due = 0;
            outcome = make();
        } else {
            if (strstr(words, "CONSUMER.MSG.NEXT.KV.c") != NULL) {
                fetches++;
                due = number_after("\"batch\":");
                words[0] = '\0';
            }
            cr_assert_gt(due, 0, "nothing is asked for");
            due--;
            outcome = deliver();
        }
        if (outcome == NATS_REPLAY_BATCH) {
            note_seq(replay.seq);
        }
        if (outcome == NATS_REPLAY_FAILED) {
            note("failed");
            return got;
        }
        if (outcome == NATS_REPLAY_END || replay.over) {
            note("end");
            return got;
        }
    }
}

static const char *
asked(uint64_t from, const char *life)
{
    return asked_after(from, life, from);
}

Test(node_nats_replay, a_stream_of_one_subject_takes_two_consumers)
{
    for (uint64_t i = 0; i < 10; i++) {
        add("a", i);
    }
    cr_assert_str_eq(asked(6, ""), "6 7 8 9 end");
    cr_assert_eq(made, 2);
    cr_assert_str_eq(asked(0, "a"), "0 1 2 3 4 5 6 7 8 9 end");
    cr_assert_eq(made, 4);
    cr_assert_str_eq(asked(9, "a"), "9 end");
}

Test(node_nats_replay, earlier_lives_are_passed_over)
{
    for (uint64_t i = 0; i < 10; i++) {
        add("a", i);
    }
    add("b", 0);
    add("b", 2); /* one was never published */
    add("b", 3);
    cr_assert_str_eq(asked(0, ""), "0 2 3 end");
    cr_assert_str_eq(asked(1, "b"), "2 3 end");
    cr_assert_str_eq(asked(3, "b"), "3 end");
    /* A life that is not as far as what was applied is another one. */
    cr_assert_str_eq(asked(7, "a"), "end");
    cr_assert_str_eq(asked(7, ""), "end");
    cr_assert_str_eq(asked_after(7, "b", 3), "end", "it began live, too");
    cr_assert_str_eq(asked_after(7, "b", 4), "failed", "4 is not there yet");
}

Test(node_nats_replay, other_subjects_move_the_beginning_back)
{
    for (uint64_t i = 0; i < 40; i++) {
        for (int other = 0; other < 20; other++) {
            add(NULL, 0);
        }
        add("a", i);
    }
    cr_assert_str_eq(asked(36, "a"), "36 37 38 39 end");
    cr_assert_leq(made, 8, "it doubles");
    made = 0;
    cr_assert_eq(strncmp(asked(0, "a"), "0 1 2 3 ", 8), 0);
    cr_assert_leq(made, 8);
}

Test(node_nats_replay, what_the_stream_forgot_is_missing)
{
    for (uint64_t i = 0; i < 10; i++) {
        add("a", i);
    }
    first = 8;
    cr_assert_str_eq(asked(0, "a"), "7 8 9 end");
    cr_assert_str_eq(asked(5, "a"), "7 8 9 end");
    first = 11;
    cr_assert_str_eq(asked(0, ""), "end");
    cr_assert_str_eq(asked(0, "a"), "end");
}

Test(node_nats_replay, a_stream_behind_its_subject_gives_no_answer)
{
    add("a", 0);
    cr_assert_str_eq(asked(3, "a"), "failed");
    cr_assert_not_null(strstr(replay.why, "does not have"));
    first = 2;
    cr_assert_str_eq(asked(3, "a"), "failed");
}

Test(node_nats_replay, many_are_fetched_in_parts)
{
    for (uint64_t i = 0; i < 1000; i++) {
        add("a", i);
    }
    const char *told = asked(0, "a");
    cr_assert_str_eq(told + strlen(told) - 7, "999 end");
    cr_assert_eq(fetches,
                 2 + (999 + NATS_REPLAY_FETCH - 1) / NATS_REPLAY_FETCH);
}

Test(node_nats_replay, messages_that_do_not_say_what_they_are_are_passed_over)
{
    add("a", 0);
    add("a", 1);
    add("", 0);
    add("", 0);
    add("a", 2);
    cr_assert_str_eq(asked(1, "a"), "1 2 end");
    cr_assert_str_eq(asked(0, "a"), "0 1 2 end");
    add("", 0);
    cr_assert_str_eq(asked(0, "a"), "failed");
    cr_assert_not_null(strstr(replay.why, "Nats-Msg-Id"));
}

static enum nats_replay_outcome
first_answer(const char *reply, const char *headers, const char *payload)
{
    out = buf_over(words, sizeof words - 1);
    nats_replay_ask(&replay, 0, "", 0, &out);
    return answer(reply, headers, payload);
}

Test(node_nats_replay, refusals_are_named)
{
    cr_assert_eq(first_answer("", "",
                              "{\"error\":{\"code\":404,\"description\":"
                              "\"stream not found\"}}"),
                 NATS_REPLAY_FAILED);
    cr_assert_str_eq(replay.why, "stream not found");
    cr_assert_eq(first_answer("", "NATS/1.0 503\r\n\r\n", ""),
                 NATS_REPLAY_FAILED);
    cr_assert_str_eq(replay.why, "the server has no JetStream");
    cr_assert_eq(first_answer("", "NATS/1.0 409 Consumer Deleted\r\n\r\n", ""),
                 NATS_REPLAY_FAILED);
    cr_assert_str_eq(replay.why, "JetStream says 409");
    cr_assert_eq(first_answer("", "", "{\"name\":\"a b\",\"num_pending\":1}"),
                 NATS_REPLAY_FAILED);
    cr_assert_eq(first_answer("", "", "{\"name\":7}"), NATS_REPLAY_FAILED);
    cr_assert_eq(first_answer("", "", "no"), NATS_REPLAY_FAILED);
    cr_assert_eq(first_answer("", "", "{\"name\":\"c\",\"num_pending\":3}"),
                 NATS_REPLAY_WAITS);
    cr_assert_eq(answer("_INBOX.x", "NATS/1.0\r\nNats-Msg-Id: a-0\r\n\r\n", ""),
                 NATS_REPLAY_FAILED, "no place");
}

Test(node_nats_replay, what_was_deleted_meanwhile_ends_it)
{
    cr_assert_eq(first_answer("", "", "{\"name\":\"c\",\"num_pending\":3}"),
                 NATS_REPLAY_WAITS);
    cr_assert_eq(answer("", "NATS/1.0 404 No Messages\r\n\r\n", ""),
                 NATS_REPLAY_END);
}

Test(node_nats_replay, another_subscriptions_messages_are_none)
{
    struct nats_said said = {.op = NATS_MSG, .headers = SLICE("NATS/1.0 503")};

    out = buf_over(words, sizeof words - 1);
    nats_replay_ask(&replay, 0, "", 0, &out);
    said.sid = replay.sid;
    nats_replay_ask(&replay, 0, "", 0, &out);
    cr_assert_not_null(strstr(words, "UNSUB 1\r\nSUB _INBOX.me.2 2\r\n"));
    cr_assert_eq(nats_replay_take(&replay, &said, &out), NATS_REPLAY_WAITS);
    said.sid = replay.sid;
    cr_assert_eq(nats_replay_take(&replay, &said, &out), NATS_REPLAY_FAILED);
    cr_assert_eq(nats_replay_take(&replay, &said, &out), NATS_REPLAY_WAITS,
                 "nothing is asked any more");
}
