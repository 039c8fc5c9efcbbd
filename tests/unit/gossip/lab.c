/* The nodes of the bench, and how frames get from one to another. */
#include "lab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"

const struct event_stream lab_stream = {.worker = 0x1234, .rank = 1};

static uint64_t
key_of(uint32_t key)
{
    return rng_mix(key + 1);
}

static uint32_t
key_index(uint64_t key)
{
    for (uint32_t i = 0; i < LAB_KEYS; i++) {
        if (key_of(i) == key) {
            return i;
        }
    }
    abort();
}

/* Tests make one allocation fail: ours are none of theirs. */
static void *
allocate(size_t size)
{
    void *memory = malloc(size);

    return memory != NULL ? memory : malloc(size);
}

static int
make(struct lab *lab, struct lab_node *node)
{
    int rc =
        gossip_new(&node->g, &lab->config, node->id, lab->now_us, node->id);

    if (rc == -ENOMEM) {
        rc =
            gossip_new(&node->g, &lab->config, node->id, lab->now_us, node->id);
    }
    if (rc == 0) {
        rc = gossip_stream_add(node->g, lab_stream, lab->now_us);
    }
    return rc != -ENOMEM ? rc
                         : gossip_stream_add(node->g, lab_stream, lab->now_us);
}

void
lab_start(struct lab *lab, uint32_t at)
{
    struct lab_node *node = &lab->nodes[at];
    uint64_t id = node->id == 0 ? at + 1 : node->id + 100;

    *node = (struct lab_node){.id = id};
    int rc = make(lab, node);
    if (rc != 0) {
        abort();
    }
}

void
lab_stop(struct lab *lab, uint32_t at)
{
    gossip_free(lab->nodes[at].g);
    lab->nodes[at].g = NULL;
    for (uint32_t i = 0; i < lab->count; i++) {
        if (lab->nodes[i].g != NULL) {
            gossip_peer_down(lab->nodes[i].g, lab->nodes[at].id, lab->now_us);
        }
    }
}

void
lab_link(struct lab *lab, uint32_t a, uint32_t b)
{
    if (gossip_peer_up(lab->nodes[a].g, lab->nodes[b].id, lab->now_us) != 0 ||
        gossip_peer_up(lab->nodes[b].g, lab->nodes[a].id, lab->now_us) != 0) {
        abort();
    }
}

void
lab_unlink(struct lab *lab, uint32_t a, uint32_t b)
{
    gossip_peer_down(lab->nodes[a].g, lab->nodes[b].id, lab->now_us);
    gossip_peer_down(lab->nodes[b].g, lab->nodes[a].id, lab->now_us);
}

void
lab_begin(struct lab *lab, const struct gossip_config *config, uint32_t count)
{
    memset(lab, 0, sizeof *lab);
    lab->config = *config;
    lab->now_us = 1000 * LAB_MS;
    lab->count = count;
    for (uint32_t i = 0; i < count; i++) {
        lab_start(lab, i);
        for (uint32_t b = 0; b < i; b++) {
            lab_link(lab, i, b);
        }
    }
    lab_carry(lab);
}

void
lab_end(struct lab *lab)
{
    lab_lose(lab);
    for (uint32_t i = 0; i < lab->count; i++) {
        gossip_free(lab->nodes[i].g);
    }
}

static void
tell_digest(struct lab_node *node)
{
    uint64_t count = 0;
    uint64_t xor_keys = 0;

    for (uint32_t i = 0; i < LAB_KEYS; i++) {
        if (node->held[i]) {
            count++;
            xor_keys ^= rng_mix(key_of(i));
        }
    }
    gossip_digest(node->g, lab_stream, count, xor_keys);
}

static void
apply(struct lab_node *node, const struct event_record *record)
{
    if (record->epoch != node->name ||
        !event_check(record->words, record->words_count)) {
        abort();
    }
    for (uint32_t at = 0; at < record->words_count;) {
        uint64_t op = record->words[at++];
        if (event_op_kind(op) == EVENT_CLEAR) {
            memset(node->held, 0, sizeof node->held);
        }
        for (uint32_t i = 0; i < event_op_count(op); i++) {
            node->held[key_index(record->words[at++])] =
                event_op_kind(op) == EVENT_STORE;
        }
    }
    node->applied++;
    node->seq = record->seq;
    node->holes = record->holes;
    node->holes_unknown += record->holes == EVENT_HOLES_UNKNOWN;
    tell_digest(node);
}

void
lab_export(struct lab *lab, uint32_t at)
{
    struct lab_node *node = &lab->nodes[at];
    uint64_t storage[64];
    struct event_words words = {.words = storage, .max = 64};
    uint64_t key = node->cursor;

    for (; key < LAB_KEYS && words.count < 60; key++) {
        if (node->held[key]) {
            *event_words_add(&words, EVENT_STORE, TIER_DEVICE, 1) =
                key_of((uint32_t)key);
        }
    }
    gossip_exported(node->g, node->token, node->refuses ? NULL : storage,
                    words.count, key == LAB_KEYS ? GOSSIP_CURSOR_END : key,
                    lab->now_us);
}

static void
keep_frame(struct lab *lab, uint32_t at, const struct gossip_out *out)
{
    lab->sent_by[at]++;
    lab->types[out->bytes[0] & 15]++;
    if (lab->frames_count == LAB_FRAMES) {
        abort();
    }
    struct lab_frame *frame = &lab->frames[lab->frames_count++];
    *frame = (struct lab_frame){.from = lab->nodes[at].id,
                                .to = out->peer,
                                .channel = out->channel,
                                .len = out->len};
    frame->bytes = allocate(out->len);
    memcpy(frame->bytes, out->bytes, out->len);
}

static void
take(struct lab *lab, uint32_t at, const struct gossip_out *out)
{
    struct lab_node *node = &lab->nodes[at];

    switch (out->kind) {
    case GOSSIP_SEND:
        keep_frame(lab, at, out);
        break;
    case GOSSIP_RESET:
        memset(node->held, 0, sizeof node->held);
        node->name = out->name;
        node->resets++;
        tell_digest(node);
        break;
    case GOSSIP_APPLY:
        apply(node, out->record);
        break;
    case GOSSIP_EXPORT:
        node->token = out->token;
        node->cursor = out->cursor;
        if (!node->halts) {
            lab_export(lab, at);
        }
        break;
    case GOSSIP_STATE:
        node->complete = out->complete;
        node->stale = out->stale;
        node->contested = out->contested;
        break;
    case GOSSIP_BELIEF:
        node->beliefs++;
        node->belief = out->belief;
        node->belief_first = out->belief.keys[0];
        node->belief_last = out->belief.keys[out->belief.count - 1];
        break;
    case GOSSIP_REREAD:
        node->ask = out->ask;
        node->prove = out->prove;
        node->rereads++;
        break;
    }
}

void
lab_pull(struct lab *lab)
{
    const char *reason = "";

    for (uint32_t i = 0; i < lab->count; i++) {
        struct gossip_out out;
        while (lab->nodes[i].g != NULL &&
               gossip_next_out(lab->nodes[i].g, &out)) {
            take(lab, i, &out);
        }
        if (lab->nodes[i].g != NULL &&
            !gossip_check(lab->nodes[i].g, &reason)) {
            base_check_failed(reason, __FILE__, __LINE__, __func__);
        }
    }
}

static uint32_t
node_of(const struct lab *lab, uint64_t id)
{
    for (uint32_t i = 0; i < lab->count; i++) {
        if (lab->nodes[i].id == id && lab->nodes[i].g != NULL) {
            return i;
        }
    }
    return LAB_NODES;
}

void
lab_carry(struct lab *lab)
{
    lab_pull(lab);
    for (uint32_t i = 0; i < lab->frames_count; i++) {
        struct lab_frame frame = lab->frames[i];
        uint32_t from = node_of(lab, frame.from);
        uint32_t to = node_of(lab, frame.to);
        if (from < LAB_NODES && to < LAB_NODES && !lab->severed[from] &&
            !lab->severed[to]) {
            int rc = gossip_recv(lab->nodes[to].g, frame.from, frame.bytes,
                                 frame.len, lab->now_us);
            if (rc == GOSSIP_E_BAD) {
                abort();
            }
            lab->carried++;
        }
        free(frame.bytes);
        lab->frames[i].bytes = NULL;
        lab_pull(lab);
    }
    lab->frames_count = 0;
}

void
lab_lose(struct lab *lab)
{
    for (uint32_t i = 0; i < lab->frames_count; i++) {
        free(lab->frames[i].bytes);
    }
    lab->frames_count = 0;
}

void
lab_run(struct lab *lab, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        lab->now_us += LAB_MS;
        for (uint32_t n = 0; n < lab->count; n++) {
            if (lab->nodes[n].g != NULL) {
                gossip_tick(lab->nodes[n].g, lab->now_us);
            }
        }
        lab_carry(lab);
    }
}

void
lab_read_many(struct lab *lab, uint32_t at, uint64_t seq, uint32_t key,
              uint32_t count)
{
    struct event_record *record =
        allocate(sizeof *record + (count + 1) * sizeof(uint64_t));

    *record = (struct event_record){0};
    record->seq = seq;
    record->block_tokens = 16;
    record->words_count = count + 1;
    record->words[0] = event_op(EVENT_STORE, TIER_DEVICE, count);
    for (uint32_t i = 0; i < count; i++) {
        record->words[i + 1] = key_of((key + i) % LAB_KEYS);
    }
    gossip_local_record(lab->nodes[at].g, lab_stream, record, rng_mix(seq),
                        true, lab->now_us);
    free(record);
    lab_pull(lab);
}

void
lab_read(struct lab *lab, uint32_t at, uint64_t seq, enum event_kind kind,
         uint32_t key)
{
    uint64_t room[16] = {0};
    struct event_record *record = (struct event_record *)(void *)room;

    record->seq = seq;
    record->words_count = kind == EVENT_CLEAR ? 1 : 2;
    record->words[0] = event_op(kind, TIER_DEVICE, kind == EVENT_CLEAR ? 0 : 1);
    record->words[1] = key_of(key);
    gossip_local_record(lab->nodes[at].g, lab_stream, record, rng_mix(seq),
                        true, lab->now_us);
    lab_pull(lab);
}

void
lab_read_named(struct lab *lab, uint32_t at, uint64_t seq, uint32_t key,
               bool named)
{
    static const uint64_t reader = LAB_READER;
    uint64_t room[sizeof(struct event_record) / 8 + 16] = {0};
    struct event_record *record = (struct event_record *)(void *)room;
    struct names_said said = {.last = 0};
    struct names_block block = {.name = key + 1000, .key = rng_mix(key + 1)};

    record->seq = seq;
    record->block_tokens = 16;
    record->words_count = 2;
    record->words[0] = event_op(EVENT_STORE, TIER_DEVICE, 1);
    record->words[1] = block.key;
    if (named) {
        words_init(&said.words, 16);
        names_say_reader(&said, &reader, 1);
        names_say_enter(&said, &block);
        record->names_count = EVENT_NAMED | (uint32_t)said.words.count;
        memcpy(record->words + 2, said.words.word,
               said.words.count * sizeof(uint64_t));
        words_fini(&said.words);
    }
    gossip_local_record(lab->nodes[at].g, lab_stream, record, rng_mix(seq + 7),
                        true, lab->now_us);
    lab_pull(lab);
}

void
lab_clear(struct lab *lab, uint32_t at, uint64_t seq)
{
    static const uint64_t reader = LAB_READER;
    uint64_t room[sizeof(struct event_record) / 8 + 16] = {0};
    struct event_record *record = (struct event_record *)(void *)room;
    struct names_said said = {.last = 0};

    words_init(&said.words, 16);
    names_say_reader(&said, &reader, 1);
    record->seq = seq;
    record->words_count = 1;
    record->words[0] = event_op(EVENT_CLEAR, TIER_DEVICE, 0);
    record->names_count = EVENT_NAMED | (uint32_t)said.words.count;
    memcpy(record->words + 1, said.words.word,
           said.words.count * sizeof(uint64_t));
    words_fini(&said.words);
    gossip_local_record(lab->nodes[at].g, lab_stream, record, rng_mix(seq + 7),
                        true, lab->now_us);
    lab_pull(lab);
}

void
lab_begin_reading(struct lab *lab, uint32_t at, uint64_t process, bool whole)
{
    gossip_local_begin(lab->nodes[at].g, lab_stream, process, whole,
                       lab->nodes[at].ask, lab->now_us);
    gossip_local_live(lab->nodes[at].g, lab_stream, true, lab->now_us);
    lab_pull(lab);
}

uint32_t
lab_held(const struct lab *lab, uint32_t at)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < LAB_KEYS; i++) {
        count += lab->nodes[at].held[i];
    }
    return count;
}

bool
lab_same(const struct lab *lab, uint32_t a, uint32_t b)
{
    return memcmp(lab->nodes[a].held, lab->nodes[b].held,
                  sizeof lab->nodes[a].held) == 0;
}

struct gossip_status
lab_status(const struct lab *lab, uint32_t at)
{
    struct gossip_status status = {0};

    if (!gossip_status(lab->nodes[at].g, 0, &status)) {
        abort();
    }
    return status;
}

struct gossip_stats
lab_stats(const struct lab *lab, uint32_t at)
{
    struct gossip_stats stats;

    gossip_stats(lab->nodes[at].g, &stats);
    return stats;
}
