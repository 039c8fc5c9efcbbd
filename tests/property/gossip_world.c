/* The steps of the world: engines, readers, nodes and the network. */
#include "gossip_world.h"

#include <stdlib.h>
#include <string.h>

static uint32_t
below(struct world *world, uint64_t bound)
{
    return (uint32_t)rng_below(&world->rng, bound);
}

static bool
chance(struct world *world, uint32_t of_10000)
{
    return below(world, 10000) < of_10000;
}

static uint32_t
key_index(uint32_t stream, uint64_t key)
{
    for (uint32_t i = 0; i < WORLD_KEYS; i++) {
        if (world_key_of(stream, i) == key) {
            return i;
        }
    }
    abort();
}

/* Applies words to a set. */
static void
apply(struct world_set *set, uint32_t stream, const uint64_t *words,
      uint32_t count)
{
    for (uint32_t at = 0; at < count;) {
        uint64_t op = words[at++];
        if (event_op_kind(op) == EVENT_CLEAR) {
            memset(set, 0, sizeof *set);
        }
        for (uint32_t i = 0; i < event_op_count(op); i++) {
            uint8_t bit = (uint8_t)(1U << event_op_tier(op));
            uint8_t *tiers = &set->tiers[key_index(stream, words[at++])];
            *tiers = event_op_kind(op) == EVENT_STORE
                         ? (uint8_t)(*tiers | bit)
                         : (uint8_t)(*tiers & ~bit);
        }
    }
}

/* Engines */

struct world_process *
world_living(struct world *world, uint32_t stream)
{
    struct world_engine *engine = &world->engines[stream];

    return &engine->process[engine->count - 1];
}

static void
start_process(struct world *world, uint32_t stream)
{
    struct world_engine *engine = &world->engines[stream];

    if (engine->count == WORLD_PROCESSES) {
        return;
    }
    struct world_process *process = &engine->process[engine->count++];
    *process = (struct world_process){.id = rng_next(&world->rng) | 1};
    process->batches = calloc(WORLD_BATCHES, sizeof *process->batches);
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        world->nodes[i].reader[stream].look_us =
            world->now_us + below(world, 300) * WORLD_MS;
    }
}

uint64_t
world_print_of(const struct world_process *process, uint64_t seq)
{
    return seq == 0 ? process->id : rng_mix(process->id ^ rng_mix(seq));
}

static void
publish(struct world *world, uint32_t stream)
{
    struct world_process *process = world_living(world, stream);

    if (process->next_seq + 2 >= WORLD_BATCHES) {
        return;
    }
    struct world_batch *batch = &process->batches[process->next_seq];
    struct event_words words = {.words = batch->words, .max = WORLD_WORDS};
    uint32_t ops = below(world, 4); /* a batch may change nothing */
    for (uint32_t i = 0; i < ops; i++) {
        if (below(world, 200) == 0) {
            (void)event_words_add(&words, EVENT_CLEAR, TIER_DEVICE, 0);
            continue;
        }
        enum event_kind kind = below(world, 5) < 3 ? EVENT_STORE : EVENT_REMOVE;
        /* What rots is seen by digests, which know nothing of tiers. */
        enum tier tier = world->weather.rots == 0 && below(world, 4) == 0
                             ? TIER_HOST
                             : TIER_DEVICE;
        uint64_t *keys =
            event_words_add(&words, kind, tier, 1 + below(world, 4));
        for (uint32_t at = (uint32_t)(keys - batch->words); at < words.count;
             at++) {
            batch->words[at] = world_key_of(stream, below(world, WORLD_KEYS));
        }
    }
    batch->count = words.count;
    if (process->next_seq > 0) {
        batch->after = batch[-1].after;
    }
    apply(&batch->after, stream, batch->words, batch->count);
    process->next_seq++;
    if (world->weather.rolls && process->next_seq > process->low + 100) {
        process->low = process->next_seq - 60;
    }
}

/* Readers */

static void
add_alias(struct world_engine *engine, uint64_t id)
{
    if (engine->aliases_count < WORLD_ALIASES) {
        engine->aliases[engine->aliases_count++] =
            (struct world_alias){.id = id, .process = engine->count - 1};
    }
}

static void
begin_reading(struct world *world, struct world_node *node, uint32_t stream)
{
    struct world_reader *reader = &node->reader[stream];
    struct world_process *process = world_living(world, stream);
    uint64_t id = process->id;

    reader->begun = true;
    reader->process = world->engines[stream].count - 1;
    reader->next_seq = process->low;
    reader->partial = process->low > 0;
    reader->reread_us = 0;
    memset(&reader->known, 0, sizeof reader->known);
    if (reader->partial) {
        id = rng_mix(world_print_of(process, process->low) ^
                     rng_mix(process->low));
    }
    reader->id = id;
    add_alias(&world->engines[stream], id);
    gossip_local_begin(node->g, world->engines[stream].name, id,
                       !reader->partial, reader->ask, world->now_us);
}

/* What a reader makes of a batch: one that began in the middle has no name for
 * what it did not see stored. */
static uint32_t
decode(struct world_reader *reader, uint32_t stream,
       const struct world_batch *batch, uint64_t *out)
{
    struct event_words words = {.words = out, .max = 2 * WORLD_WORDS};

    for (uint32_t at = 0; at < batch->count;) {
        uint64_t op = batch->words[at++];
        if (event_op_kind(op) == EVENT_CLEAR) {
            (void)event_words_add(&words, EVENT_CLEAR, TIER_DEVICE, 0);
            apply(&reader->known, stream, &op, 1);
        }
        for (uint32_t i = 0; i < event_op_count(op); i++, at++) {
            uint64_t one[2] = {
                event_op(event_op_kind(op), event_op_tier(op), 1),
                batch->words[at]};
            uint32_t key = key_index(stream, batch->words[at]);
            bool known = reader->known.tiers[key] != 0;
            if (event_op_kind(op) == EVENT_STORE || known || !reader->partial) {
                *event_words_add(&words, event_op_kind(op), event_op_tier(op),
                                 1) = batch->words[at];
                apply(&reader->known, stream, one, 2);
            }
        }
    }
    return words.count;
}

static bool
clears(const struct event_record *record)
{
    for (uint32_t at = 0; at < record->words_count;) {
        if (event_op_kind(record->words[at]) == EVENT_CLEAR) {
            return true;
        }
        at += 1 + event_op_count(record->words[at]);
    }
    return false;
}

static void
read_one(struct world *world, struct world_node *node, uint32_t stream)
{
    struct world_reader *reader = &node->reader[stream];
    struct world_process *process =
        &world->engines[stream].process[reader->process];
    uint64_t room[(sizeof(struct event_record) + 16 * WORLD_WORDS) / 8 + 8 +
                  3 * WORLD_KEYS];
    struct world_set before = reader->known;
    struct event_record *record = (struct event_record *)(void *)room;
    uint64_t seq = reader->next_seq++;

    *record = (struct event_record){.seq = seq, .block_tokens = 16};
    record->words_count =
        decode(reader, stream, &process->batches[seq], record->words);
    if (clears(record)) {
        memset(&before, 0, sizeof before);
    }
    record->names_count = EVENT_NAMED;
    bool split = record->words_count == 0 && below(world, 4) == 0;
    if (split) {
        gossip_local_record(node->g, world->engines[stream].name, record,
                            world_print_of(process, seq), false, world->now_us);
    }
    world_say_names(record, stream, &before, reader);
    gossip_local_record(node->g, world->engines[stream].name, record,
                        world_print_of(process, seq), true, world->now_us);
}

static void
set_live(struct world *world, struct world_node *node, uint32_t stream,
         bool live)
{
    if (node->reader[stream].live != live) {
        node->reader[stream].live = live;
        gossip_local_live(node->g, world->engines[stream].name, live,
                          world->now_us);
    }
}

/* Goes on from the names, if they are of the living process and its replay
 * reaches them; else it begins in the middle again. */
static void
resume_reading(struct world *world, struct world_node *node, uint32_t stream)
{
    struct world_reader *reader = &node->reader[stream];
    struct world_process *process = world_living(world, stream);
    const struct world_hand *hand = &reader->hand;

    reader->hand_us = 0;
    set_live(world, node, stream, false);
    reader->process = world->engines[stream].count - 1;
    reader->known = hand->known;
    reader->next_seq = hand->seq + 1;
    reader->partial = !hand->whole;
    reader->id = hand->id;
    world->resumes++;
    gossip_local_resume(node->g, world->engines[stream].name, hand->id,
                        hand->whole, hand->seq, world->now_us);
    if (hand->seq < process->low || hand->seq >= process->next_seq ||
        hand->print != world_print_of(process, hand->seq)) {
        world->resumes--;
        begin_reading(world, node, stream);
    }
}

static bool
sees_restart(struct world *world, const struct world_reader *reader,
             uint32_t stream)
{
    return !reader->begun ||
           reader->process != world->engines[stream].count - 1 ||
           reader->next_seq < world_living(world, stream)->low;
}

static void
step_reader(struct world *world, struct world_node *node, uint32_t stream)
{
    struct world_reader *reader = &node->reader[stream];
    struct world_process *process = world_living(world, stream);

    if (!reader->on || node->engine_severed[stream]) {
        set_live(world, node, stream, false);
        return;
    }
    if (world->now_us < reader->look_us) {
        return; /* hears nothing, or old words of a dead process */
    }
    if (sees_restart(world, reader, stream)) {
        begin_reading(world, node, stream);
    }
    if (reader->hand_us != 0 && world->now_us >= reader->hand_us) {
        resume_reading(world, node, stream);
    }
    if (reader->reread_us != 0 && world->now_us >= reader->reread_us) {
        begin_reading(world, node, stream);
    }
    for (uint32_t i = 0; i < 8 && reader->next_seq < process->next_seq; i++) {
        read_one(world, node, stream);
    }
    set_live(world, node, stream, reader->next_seq == process->next_seq);
}

/* Loses the next batch for good. */
static void
lose_batch(struct world *world, struct world_node *node, uint32_t stream)
{
    struct world_reader *reader = &node->reader[stream];

    if (reader->on && reader->begun &&
        reader->process == world->engines[stream].count - 1 &&
        reader->next_seq < world_living(world, stream)->next_seq) {
        reader->next_seq++;
        reader->partial = true;
        world->gapped = true;
        gossip_local_gap(node->g, world->engines[stream].name, world->now_us);
    }
}

/* Nodes */

uint32_t
world_stream_of(struct world *world, struct event_stream name)
{
    for (uint32_t i = 0; i < world->streams_count; i++) {
        if (world->engines[i].name.worker == name.worker) {
            return i;
        }
    }
    abort();
}

static void
send(struct world *world, struct world_node *node, const struct gossip_out *out)
{
    uint32_t copies = 1;

    copies += below(world, 1000) < world->weather.copies;
    copies -= below(world, 1000) < world->weather.loss;
    for (uint32_t i = 0; i < copies; i++) {
        if (world->flight_count == WORLD_FLIGHT) {
            return;
        }
        struct world_frame *frame = &world->flight[world->flight_count++];
        frame->at_us =
            world->now_us + 200 + below(world, world->weather.jitter_us + 1);
        frame->from = node->self;
        frame->to = out->peer;
        frame->len = out->len;
        frame->bytes = malloc(out->len);
        memcpy(frame->bytes, out->bytes, out->len);
    }
}

static void
take_apply(struct world *world, struct world_node *node,
           const struct gossip_out *out)
{
    uint32_t stream = world_stream_of(world, out->stream);
    struct world_replica *replica = &node->replica[stream];
    const struct event_record *record = out->record;

    if (record->epoch != replica->name ||
        !event_check(record->words, record->words_count)) {
        world_fault(world, "a record of no RESET", 0, stream);
    }
    apply(&replica->set, stream, record->words, record->words_count);
    world_tell_digest(world, node, stream);
}

static void
pull(struct world *world, struct world_node *node)
{
    struct gossip_out out;

    while (gossip_next_out(node->g, &out)) {
        uint32_t stream =
            out.kind == GOSSIP_SEND ? 0 : world_stream_of(world, out.stream);
        struct world_replica *replica = &node->replica[stream];
        switch (out.kind) {
        case GOSSIP_SEND:
            send(world, node, &out);
            break;
        case GOSSIP_RESET:
            memset(&replica->set, 0, sizeof replica->set);
            replica->name = out.name;
            world_tell_digest(world, node, stream);
            break;
        case GOSSIP_APPLY:
            take_apply(world, node, &out);
            break;
        case GOSSIP_EXPORT:
            world_export_page(world, node, &out);
            break;
        case GOSSIP_STATE:
            replica->stale = out.stale;
            replica->complete = out.complete;
            world->contested += out.contested;
            break;
        case GOSSIP_BELIEF:
            break;
        case GOSSIP_REREAD:
            if (out.resume) {
                world_hand(world, node, stream);
                break;
            }
            node->reader[stream].ask = out.ask;
            node->reader[stream].reread_us =
                world->now_us + (1 + below(world, 60)) * WORLD_MS;
            break;
        }
    }
}

static void
add_stats(struct world *world, const struct gossip *g)
{
    struct gossip_stats stats;
    uint64_t *sum = (uint64_t *)(void *)&world->total;

    gossip_stats(g, &stats);
    for (size_t i = 0; i < sizeof stats / sizeof(uint64_t); i++) {
        sum[i] += ((uint64_t *)(void *)&stats)[i];
    }
}

static void
save_disk(struct world *world, struct world_node *node)
{
    struct gossip_status status;

    for (uint32_t i = 0; gossip_status(node->g, i, &status); i++) {
        uint32_t stream = world_stream_of(world, status.stream);
        if (!status.stale && status.epoch.no != 0) {
            node->disk[stream] = (struct world_snapshot){
                .any = true,
                .epoch = status.epoch,
                .pos = status.pos,
                .whole = status.whole,
                .complete = status.complete,
                .set = node->replica[stream].set,
            };
        }
    }
}

static void
stop_node(struct world *world, struct world_node *node)
{
    add_stats(world, node->g);
    gossip_free(node->g);
    node->g = NULL;
    node->up = false;
    memset(node->linked, 0, sizeof node->linked);
}

static void
load_disk(struct world *world, struct world_node *node, uint32_t stream)
{
    struct world_snapshot *disk = &node->disk[stream];

    if (!world->weather.disks || !disk->any) {
        return;
    }
    node->replica[stream].set = disk->set;
    node->replica[stream].name = disk->epoch.id;
    gossip_load(node->g, world->engines[stream].name, disk->epoch, disk->whole,
                disk->pos, disk->complete);
    world_tell_digest(world, node, stream);
}

static void
start_node(struct world *world, uint32_t at)
{
    struct world_node *node = &world->nodes[at];
    struct gossip_config config = gossip_config_default();

    config.log_records = 40;
    config.log_bytes = 4096;
    config.heal_ms = 300;
    config.judge_ms = 400;
    config.exports_max = 2;
    config.transfers_max = 2;
    node->up = true;
    node->self = ++world->lives * 8 + at;
    node->life = world->now_us;
    int rc = gossip_new(&node->g, &config, node->self, world->now_us,
                        rng_next(&world->rng));
    for (uint32_t i = 0; i < world->streams_count && rc == 0; i++) {
        node->replica[i] = (struct world_replica){0};
        node->reader[i] = (struct world_reader){0};
        rc = gossip_stream_add(node->g, world->engines[i].name, world->now_us);
        load_disk(world, node, i);
    }
    if (rc != 0) {
        abort();
    }
}

/* The first two of those a node sees up, by a hash of name and stream, read;
 * its peers' ids end in their names. */
static void
set_roles(struct world *world, uint32_t at)
{
    struct world_node *node = &world->nodes[at];

    for (uint32_t s = 0; s < world->streams_count; s++) {
        uint64_t mine = rng_mix(at ^ rng_mix(s));
        uint64_t best = mine;
        uint64_t primary = 0;
        uint32_t rank = 0;
        for (uint32_t i = 0; i < world->nodes_count; i++) {
            uint64_t theirs = rng_mix(i ^ rng_mix(s));
            rank += node->linked[i] != 0 && theirs > mine;
            if (node->linked[i] != 0 && theirs > best) {
                best = theirs;
                primary = node->linked[i];
            }
        }
        bool reads = rank < 2;
        if (!reads && node->reader[s].on) {
            gossip_local_end(node->g, world->engines[s].name, world->now_us);
            node->reader[s] = (struct world_reader){0};
        }
        node->reader[s].on = reads;
        gossip_role(node->g, world->engines[s].name,
                    reads ? rank : GOSSIP_RANK_NONE, primary, world->now_us);
    }
}

/* Links */

static bool
can_reach(struct world *world, uint32_t a, uint32_t b)
{
    return world->nodes[a].up && world->nodes[b].up && !world->parted[a][b];
}

/* Membership, as a node comes to know it. */
static void
step_link(struct world *world, uint32_t a, uint32_t b)
{
    struct world_node *node = &world->nodes[a];
    uint64_t there = can_reach(world, a, b) && can_reach(world, b, a)
                         ? world->nodes[b].self
                         : 0;

    if (there == node->linked[b]) {
        node->link_us[b] = 0;
        return;
    }
    if (node->link_us[b] == 0) {
        uint64_t wait_ms = there != 0 ? 20 : 400;
        node->link_us[b] =
            world->now_us + (1 + below(world, wait_ms)) * WORLD_MS;
        return;
    }
    if (world->now_us < node->link_us[b]) {
        return;
    }
    if (node->linked[b] != 0) {
        gossip_peer_down(node->g, node->linked[b], world->now_us);
    }
    if (there != 0 && gossip_peer_up(node->g, there, world->now_us) != 0) {
        abort();
    }
    node->linked[b] = there;
    node->link_us[b] = 0;
    set_roles(world, a);
    pull(world, node);
}

static struct world_node *
node_of(struct world *world, uint64_t self)
{
    struct world_node *node = &world->nodes[self % 8];

    return node->up && node->self == self ? node : NULL;
}

static void
deliver(struct world *world)
{
    for (uint32_t i = 0; i < world->flight_count;) {
        struct world_frame frame = world->flight[i];
        if (frame.at_us > world->now_us) {
            i++;
            continue;
        }
        world->flight[i] = world->flight[--world->flight_count];
        struct world_node *to = node_of(world, frame.to);
        if (to != NULL && !world->parted[frame.from % 8][frame.to % 8]) {
            int rc = gossip_recv(to->g, frame.from, frame.bytes, frame.len,
                                 world->now_us);
            if (rc == GOSSIP_E_BAD) {
                world_fault(world, "a frame was malformed", 0, 0);
            }
            pull(world, to);
        }
        free(frame.bytes);
    }
}

/* Chaos */

static void
part(struct world *world)
{
    uint32_t way = below(world, 3);
    uint32_t groups = below(world, 1U << world->nodes_count);
    uint32_t alone = below(world, world->nodes_count);

    for (uint32_t a = 0; a < world->nodes_count; a++) {
        for (uint32_t b = 0; b < world->nodes_count; b++) {
            bool apart = (groups >> a & 1) != (groups >> b & 1);
            world->parted[a][b] = way == 0   ? false
                                  : way == 1 ? apart
                                             : a == alone && below(world, 2);
        }
    }
}

static void
break_node(struct world *world, struct world_node *node, uint32_t stream)
{
    const struct world_weather *weather = &world->weather;

    if (chance(world, weather->deaths)) {
        stop_node(world, node);
        return;
    }
    if (chance(world, weather->severs)) {
        node->engine_severed[stream] = !node->engine_severed[stream];
    }
    if (chance(world, weather->rereads) && node->reader[stream].begun) {
        node->reader[stream].reread_us = world->now_us;
    }
    if (chance(world, weather->losts)) {
        gossip_local_lost(node->g, world->engines[stream].name, world->now_us);
    }
    if (chance(world, weather->gaps)) {
        lose_batch(world, node, stream);
    }
    if (chance(world, weather->rots)) {
        node->replica[stream].set.tiers[below(world, WORLD_KEYS)] ^= 1;
        world->rotten = true;
        world_tell_digest(world, node, stream);
    }
    if (chance(world, 100)) {
        pull(world, node); /* what was told to forget is forgotten on disk */
        save_disk(world, node);
    }
}

static void
step_chaos(struct world *world)
{
    uint32_t stream = below(world, world->streams_count);
    uint32_t at = below(world, world->nodes_count);

    if (chance(world, world->weather.parts)) {
        part(world);
    }
    if (chance(world, world->weather.restarts)) {
        start_process(world, stream);
    }
    if (world->nodes[at].up) {
        break_node(world, &world->nodes[at], stream);
    } else if (chance(world, 100)) {
        start_node(world, at);
        set_roles(world, at);
    }
}

void
world_step(struct world *world, bool chaos, bool publishing)
{
    world->now_us += WORLD_MS;
    for (uint32_t s = 0; s < world->streams_count && publishing; s++) {
        if (below(world, 8) == 0) {
            publish(world, s);
        }
    }
    if (chaos) {
        step_chaos(world);
    }
    deliver(world);
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        struct world_node *node = &world->nodes[i];
        for (uint32_t b = 0; b < world->nodes_count && node->up; b++) {
            if (b != i) {
                step_link(world, i, b);
            }
        }
        for (uint32_t s = 0; s < world->streams_count && node->up; s++) {
            step_reader(world, node, s);
            pull(world, node);
        }
        if (node->up && gossip_deadline(node->g) <= world->now_us) {
            gossip_tick(node->g, world->now_us);
            pull(world, node);
        }
    }
    world_check(world, "step");
}

/* Making */

void
world_heal(struct world *world)
{
    memset(world->parted, 0, sizeof world->parted);
    world->weather.loss /= 4;
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        struct world_node *node = &world->nodes[i];
        memset(node->engine_severed, 0, sizeof node->engine_severed);
        if (!node->up) {
            start_node(world, i);
            set_roles(world, i);
        }
    }
}

static void
draw_weather(struct world *world)
{
    struct world_weather *weather = &world->weather;
    bool rough = below(world, 2) == 0;

    *weather = (struct world_weather){
        .loss = below(world, 3) == 0 ? below(world, 200) : 0,
        .copies = below(world, 2) == 0 ? below(world, 200) : 0,
        .jitter_us = below(world, 2) == 0 ? 1000 : below(world, 60000),
        .parts = below(world, 2) == 0 ? 0 : below(world, 20),
        .deaths = below(world, 2) == 0 ? 0 : below(world, 20),
        .restarts = below(world, 3) == 0 ? 0 : below(world, rough ? 20 : 6),
        .severs = below(world, 2) == 0 ? 0 : below(world, 20),
        .rereads = below(world, 3) == 0 ? below(world, 20) : 0,
        .losts = below(world, 3) == 0 ? below(world, 10) : 0,
        .gaps = below(world, 8) == 0 ? below(world, 10) : 0,
        .rots = below(world, 8) == 0 ? below(world, 5) : 0,
        .rolls = below(world, 4) == 0,
        .disks = below(world, 2) == 0,
    };
}

void
world_begin(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof *world);
    world->seed = seed;
    world->now_us = 1000 * WORLD_MS;
    rng_init(&world->rng, seed);
    draw_weather(world);
    world->flight = calloc(WORLD_FLIGHT, sizeof *world->flight);
    world->nodes_count = 3 + below(world, 5);
    world->streams_count = 1 + below(world, WORLD_STREAMS);
    for (uint32_t s = 0; s < world->streams_count; s++) {
        struct world_engine *engine = &world->engines[s];
        engine->name.worker = rng_mix(s + 77);
        engine->process = calloc(WORLD_PROCESSES, sizeof *engine->process);
        start_process(world, s);
    }
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        start_node(world, i);
        set_roles(world, i);
    }
}

void
world_end(struct world *world)
{
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        if (world->nodes[i].up) {
            stop_node(world, &world->nodes[i]);
        }
    }
    for (uint32_t i = 0; i < world->flight_count; i++) {
        free(world->flight[i].bytes);
    }
    free(world->flight);
    for (uint32_t s = 0; s < world->streams_count; s++) {
        for (uint32_t i = 0; i < world->engines[s].count; i++) {
            free(world->engines[s].process[i].batches);
        }
        free(world->engines[s].process);
    }
}
