/* Whatever a NATS server says, an operation lies within what was read, questions
 * to it are whole lines, and a replay's batches are of the numbers asked for. */
#include <string.h>

#include "node/events/nats_replay_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MESSAGE_MAX 300U

static bool
is_within(struct slice part, struct slice bytes)
{
    return part.len == 0 ||
           (part.ptr >= bytes.ptr && part.len <= bytes.len &&
            part.ptr - bytes.ptr <= (ptrdiff_t)(bytes.len - part.len));
}

static void
take(struct nats_replay *replay, struct nats_said *said)
{
    char words[4096];
    struct buf out = buf_over(words, sizeof words);

    said->sid = said->sid % 2 == 0 ? said->sid : replay->sid;
    enum nats_replay_outcome outcome = nats_replay_take(replay, said, &out);
    CHECK(!out.failed);
    CHECK(out.len == 0 || memcmp(words + out.len - 2, "\r\n", 2) == 0);
    CHECK(outcome != NATS_REPLAY_BATCH || replay->seq >= replay->from);
    CHECK(outcome != NATS_REPLAY_FAILED || replay->why[0] != '\0');
    CHECK(out.len == 0 || outcome == NATS_REPLAY_WAITS ||
          outcome == NATS_REPLAY_BATCH);
    if (replay->stage == NATS_REPLAY_IDLE) {
        nats_replay_ask(replay, replay->seq % 4, replay->life, replay->back % 4,
                        &out);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = {(const char *)data, size};
    struct nats_replay replay = {
        .stream = SLICE("KV"), .subject = SLICE("kv.a"), .inbox = "_INBOX.me"};
    char words[4096];
    struct buf out = buf_over(words, sizeof words);
    struct nats_said said;

    nats_replay_ask(&replay, 3, "a", 3, &out);
    for (;;) {
        nats_wire_read(bytes, MESSAGE_MAX, &said);
        if (said.op == NATS_PART || said.op == NATS_BAD) {
            CHECK(said.used == 0);
            return 0;
        }
        CHECK(said.used != 0 && said.used <= bytes.len);
        CHECK(is_within(said.text, bytes) && is_within(said.reply, bytes) &&
              is_within(said.headers, bytes) && is_within(said.payload, bytes));
        CHECK(said.headers.len + said.payload.len <= MESSAGE_MAX);
        (void)nats_wire_wants_tls(said.text);
        (void)nats_wire_nonce(said.text);
        bytes.ptr += said.used;
        bytes.len -= said.used;
        size_t skip = said.skip < bytes.len ? said.skip : bytes.len;
        bytes.ptr += skip;
        bytes.len -= skip;
        if (said.op == NATS_MSG) {
            take(&replay, &said);
        }
    }
}
