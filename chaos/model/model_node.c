/* A node of the model around its core: the index, the intake, a disk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/model/model_internal.h"
#include "index/base/rng.h"

#define READER 2U /* words that a reader says of itself */
#define ROOM   ((size_t)1 << 20)

struct model model;

const struct event_stream model_stream = {.worker = 7};

void
model_fail(const char *what, uint32_t node)
{
    printf("model: %s, node %u, word %s\n", what, node, model.word);
    exit(model_mutated ? 0 : 1);
}

static uint64_t
print_of(uint64_t process, uint64_t seq)
{
    return seq == 0 ? process : rng_mix(process ^ rng_mix(seq));
}

uint64_t
model_low(void)
{
    return model.count > MODEL_REPLAY ? model.count - MODEL_REPLAY : 0;
}

/* Outputs */

static void
tell_digest(struct model_node *node)
{
    uint64_t count = 0;
    uint64_t xor_keys = 0;

    for (uint32_t i = 0; i < MODEL_KEYS; i++) {
        count += node->held[i];
        xor_keys ^= node->held[i] ? rng_mix(i + 1) : 0;
    }
    gossip_digest(node->g, model_stream, count, xor_keys);
}

static void
apply(struct model_node *node, const struct event_record *record)
{
    for (uint32_t at = 0; at < record->words_count;) {
        uint32_t keys = event_op_count(record->words[at++]);
        for (uint32_t i = 0; i < keys; i++) {
            node->held[record->words[at++] - 1] = true;
        }
    }
    tell_digest(node);
}

static void
export_all(struct model_node *node, uint64_t token)
{
    uint64_t room[2 * MODEL_KEYS];
    struct event_words words = {.words = room, .max = 2 * MODEL_KEYS};

    for (uint32_t i = 0; i < MODEL_KEYS; i++) {
        if (node->held[i]) {
            *event_words_add(&words, EVENT_STORE, TIER_DEVICE, 1) = i + 1;
        }
    }
    gossip_exported(node->g, token, room, words.count, GOSSIP_CURSOR_END,
                    model.now_us);
}

static void
keep(const struct model_node *node, const struct gossip_out *out)
{
    CHECK(model.frames < MODEL_FRAMES);
    struct model_frame *frame = &model.frame[model.frames++];
    *frame = (struct model_frame){
        .from = node->id, .to = out->peer, .len = out->len};
    frame->bytes = malloc(out->len);
    CHECK(frame->bytes != NULL);
    memcpy(frame->bytes, out->bytes, out->len);
}

void
model_node_pull(struct model_node *node)
{
    struct gossip_out out;

    while (gossip_next_out(node->g, &out)) {
        switch (out.kind) {
        case GOSSIP_SEND:
            keep(node, &out);
            break;
        case GOSSIP_RESET:
            memset(node->held, 0, sizeof node->held);
            tell_digest(node);
            break;
        case GOSSIP_APPLY:
            apply(node, out.record);
            break;
        case GOSSIP_EXPORT:
            export_all(node, out.token);
            break;
        case GOSSIP_REREAD:
            node->resumes |= out.resume;
            if (!out.resume) {
                node->ask = out.ask;
                node->prove = out.prove;
            }
            break;
        case GOSSIP_STATE:
        case GOSSIP_BELIEF:
            break;
        }
    }
}

/* Reading */

static void
begin_reading(struct model_node *node, uint64_t ask)
{
    uint64_t from = model_low();
    uint64_t print = print_of(model.process, from);

    node->begun = true;
    node->process = model.process;
    node->called = from == 0 ? print : rng_mix(print ^ rng_mix(from));
    node->whole = from == 0;
    node->next_seq = from;
    gossip_local_begin(node->g, model_stream, node->called, node->whole, ask,
                       model.now_us);
}

static bool
is_lost(const struct model_node *node)
{
    return !node->begun || node->process != model.process ||
           node->next_seq < model_low();
}

static void
answer(struct model_node *node)
{
    uint64_t ask = node->ask;

    node->ask = 0;
    if (node->prove && !is_lost(node)) {
        gossip_local_proved(node->g, model_stream, ask, model.now_us);
    } else {
        begin_reading(node, ask);
    }
}

/* The reading is as if it had lost the connection after the batch that the
 * names are as of; the replay shows whether it can go on. */
static void
go_on(struct model_node *node, const struct gossip_names *names)
{
    const uint64_t *reader = names->table->reader;
    uint64_t print = print_of(model.process, names->seq);

    CHECK(names->table->reader_count == READER);
    node->begun = true;
    node->process = names->seq < model.count && names->fingerprint == print
                        ? model.process
                        : 0;
    node->called = reader[0];
    node->whole = reader[1] != 0;
    node->next_seq = names->seq;
    bool lost = is_lost(node); /* the batch itself must come again */
    node->next_seq++;
    gossip_local_resume(node->g, model_stream, node->called, node->whole,
                        names->seq, model.now_us);
    model_node_pull(node);
    if (lost) {
        node->process = 0;
    } else {
        model.resumed++;
    }
}

static void
resume(struct model_node *node)
{
    struct names_twin twin;
    struct gossip_names names;
    int rc = GOSSIP_E_MORE;

    node->resumes = false;
    if (!node->begun || !gossip_hand_begin(node->g, model_stream, &twin)) {
        return;
    }
    while (rc == GOSSIP_E_MORE) {
        rc = gossip_hand_step(node->g, ROOM, &names, model.now_us);
    }
    CHECK(rc == 0);
    go_on(node, &names);
    names_clear(&twin.table, &twin.room);
}

/* Batch seq stores one block, which the engine names after its key. */
static void
read_one(struct model_node *node, uint64_t seq)
{
    uint64_t room[sizeof(struct event_record) / 8 + 16] = {0};
    struct event_record *record = (void *)room;
    struct names_said said = {.last = 0};
    const uint64_t reader[READER] = {node->called, node->whole};

    words_init(&said.words, 12);
    names_say_reader(&said, reader, READER);
    names_say_enter(&said, &(struct names_block){.name = ~seq, .key = seq + 1});
    CHECK(!said.words.failed);
    record->seq = seq;
    record->words_count = 2;
    record->words[0] = event_op(EVENT_STORE, TIER_DEVICE, 1);
    record->words[1] = seq + 1;
    record->names_count = EVENT_NAMED | (uint32_t)said.words.count;
    memcpy(record->words + 2, said.words.word,
           said.words.count * sizeof *said.words.word);
    words_fini(&said.words);
    gossip_local_record(node->g, model_stream, record,
                        print_of(model.process, seq), true, model.now_us);
    model_node_pull(node);
}

void
model_node_read(struct model_node *node)
{
    if (node->cut && node->live) {
        node->live = false;
        gossip_local_live(node->g, model_stream, false, model.now_us);
        model_node_pull(node);
    }
    if (!node->reads || node->cut) {
        return;
    }
    if (node->ask != 0) {
        answer(node);
    } else if (node->resumes) {
        resume(node);
    }
    if (is_lost(node)) {
        begin_reading(node, 0);
    }
    while (node->next_seq < model.count) {
        read_one(node, node->next_seq++);
    }
    if (!node->live) {
        node->live = true;
        gossip_local_live(node->g, model_stream, true, model.now_us);
    }
    model_node_pull(node);
}

void
model_node_end(struct model_node *node)
{
    gossip_local_end(node->g, model_stream, model.now_us);
    node->begun = false;
    node->live = false;
    node->resumes = false;
    node->ask = 0;
}

/* What it knows */

/* How many batches of the living process it knows all of. */
static uint64_t
blocks_of(const struct model_node *node, const struct gossip_status *s)
{
    uint64_t upto = s->pos >> 8;

    if (s->epoch.id != model.process || !s->complete || s->torn ||
        s->pos == 0) {
        return 0;
    }
    for (uint64_t i = 0; i <= upto; i++) {
        if (!node->held[i]) {
            return 0;
        }
    }
    return upto + 1;
}

bool
model_node_knows_all(const struct model_node *node)
{
    struct gossip_status s;

    return node->g != NULL && gossip_status_of(node->g, model_stream, &s) &&
           s.epoch.id == model.process && blocks_of(node, &s) == model.count;
}

uint64_t
model_node_blocks(const struct model_node *node)
{
    uint64_t blocks = 0;

    for (uint32_t i = 0; i < MODEL_KEYS; i++) {
        blocks += node->held[i];
    }
    return blocks;
}

/* The same with the engine's names of the blocks. Who asks a peer for newer
 * names keeps its own until they are there. */
uint64_t
model_node_names(const struct model_node *node)
{
    struct gossip_status s;

    if (node->g == NULL || !gossip_status_of(node->g, model_stream, &s)) {
        return 0;
    }
    uint64_t blocks = blocks_of(node, &s);
    uint64_t pos = s.names_known ? s.names_pos : s.names_kept;
    uint64_t names = pos == 0 ? 0 : (pos >> 8) + 1;
    return names < blocks ? names : blocks;
}

/* Its life */

/* Small: nodes are made a million times. */
static struct gossip_config
model_config(void)
{
    struct gossip_config config = gossip_config_default();

    config.workers_max = 1;
    config.peers_max = MODEL_NODES;
    config.streams_max = 1;
    config.sends_max = 256;
    config.belief_bytes = 256;
    return config;
}

/* From its disk, if `from_disk`. */
void
model_node_start(struct model_node *node, bool from_disk)
{
    struct gossip_config config = model_config();
    struct model_disk *disk = &node->disk;
    const struct gossip_status *s = &disk->status;

    node->id = ++model.lives;
    CHECK(gossip_new(&node->g, &config, node->id, model.now_us, node->id) == 0);
    CHECK(gossip_stream_add(node->g, model_stream, model.now_us) == 0);
    if (from_disk && s->pos != 0 &&
        gossip_can_load(node->g, model_stream, s->epoch, s->pos)) {
        gossip_load(node->g, model_stream, s->epoch, s->whole, s->pos,
                    s->complete);
        memcpy(node->held, disk->held, sizeof node->held);
        CHECK(disk->print == 0 ||
              gossip_load_names(node->g, model_stream, disk->print,
                                &disk->names.table));
        tell_digest(node);
    }
    model_node_pull(node);
}

static void
save(struct model_node *node)
{
    struct model_disk *disk = &node->disk;
    struct gossip_names names;

    names_clear(&disk->names.table, &disk->names.room);
    names_twin_init(&disk->names);
    disk->print = 0;
    CHECK(gossip_status_of(node->g, model_stream, &disk->status));
    memcpy(disk->held, node->held, sizeof disk->held);
    if (disk->status.torn) {
        disk->status.pos = 0;
    } else if (gossip_names(node->g, model_stream, &names) &&
               gossip_pos_after(names.seq) == disk->status.pos) {
        CHECK(names_twin_copy(&disk->names, names.table, SIZE_MAX));
        disk->print = names.fingerprint;
    }
}

void
model_node_stop(struct model_node *node)
{
    struct model_node left = {
        .severed = node->severed, .apart = node->apart, .cut = node->cut};

    save(node);
    left.disk = node->disk;
    gossip_free(node->g);
    *node = left;
}

void
model_node_fini(struct model_node *node)
{
    names_clear(&node->disk.names.table, &node->disk.names.room);
}
