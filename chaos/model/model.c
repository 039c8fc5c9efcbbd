/*
 * What can happen to a mesh of three nodes around one engine with a short
 * replay, tried out in every order: nodes are severed and return, are killed
 * and start empty, the engine publishes more than it repeats, or restarts. All
 * words of so many letters are played against the gossip core, on virtual time.
 *
 * What must hold is the rule of gossip.h: as long as a node reads the living
 * process and has it from its first batch on, that node forgets nothing, and
 * once all is healed, all nodes know what it knows.
 *
 *   model LETTERS [WORD]    all words up to that length, or one, told in full
 *
 * Nodes 0 and 1 read; node 2 reads while it sees fewer than two others. A word
 * is made of
 *   p        the engine publishes more than it repeats
 *   a b c    node 0, 1, 2 is severed from the others, or is not any more
 *   x y z    node 0, 1, 2 is killed, or starts, empty
 *   e        the engine restarts
 *   w        time passes, more than any clock of gossip waits for
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gossip/gossip.h"
#include "index/base/rng.h"

#define NODES    3U
#define KEYS     64U /* batches of one process, at most */
#define REPLAY   4U  /* batches that the engine repeats */
#define BURST    6U
#define FRAMES   4096U
#define MS       UINT64_C(1000)
#define SHORT_US (50 * MS)
#define LONG_US  (1500 * MS)
#define QUIET_US (8000 * MS)

#ifdef KVASIR_MUTANTS
#include "index/base/mutant.h"
enum mutant mutant_on = MUTANT_NUMBERS_WIN;
#endif

static const char letters[] = "pabcxyzew";
static const struct event_stream name = {.worker = 7};

struct model_node {
    struct gossip *g; /* NULL: it does not run */
    uint64_t id;
    bool severed;
    uint64_t linked[NODES]; /* the peer's id; 0 */
    /* The intake. */
    bool reads;
    bool begun;
    bool live;
    bool whole;
    uint64_t process;
    uint64_t next_seq;
    uint64_t ask; /* to be answered; 0: nothing is */
    bool prove;
    /* The index. */
    bool held[KEYS];
    /* What it must not forget. */
    bool witness;
};

struct model_frame {
    uint64_t from;
    uint64_t to;
    size_t len;
    uint8_t *bytes;
};

static struct {
    const char *word;
    bool told;
    uint64_t now_us;
    uint64_t lives;
    uint64_t process;
    uint64_t count; /* batches that it published */
    struct model_node node[NODES];
    struct model_frame frame[FRAMES];
    uint32_t frames;
    uint64_t words;
    uint64_t witnesses; /* words at whose end there was one */
} model;

static void
fail(const char *what, uint32_t node)
{
    printf("model: %s, node %u, word %s\n", what, node, model.word);
    exit(1);
}

static uint64_t
print_of(uint64_t process, uint64_t seq)
{
    return seq == 0 ? process : rng_mix(process ^ rng_mix(seq));
}

static uint64_t
low(void)
{
    return model.count > REPLAY ? model.count - REPLAY : 0;
}

/* Outputs */

static void
tell_digest(struct model_node *node)
{
    uint64_t count = 0;
    uint64_t xor_keys = 0;

    for (uint32_t i = 0; i < KEYS; i++) {
        count += node->held[i];
        xor_keys ^= node->held[i] ? rng_mix(i + 1) : 0;
    }
    gossip_digest(node->g, name, count, xor_keys);
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
    uint64_t room[2 * KEYS];
    struct event_words words = {.words = room, .max = 2 * KEYS};

    for (uint32_t i = 0; i < KEYS; i++) {
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
    CHECK(model.frames < FRAMES);
    struct model_frame *frame = &model.frame[model.frames++];
    *frame = (struct model_frame){
        .from = node->id, .to = out->peer, .len = out->len};
    frame->bytes = malloc(out->len);
    CHECK(frame->bytes != NULL);
    memcpy(frame->bytes, out->bytes, out->len);
}

static void
pull(struct model_node *node)
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
            node->ask = out.ask;
            node->prove = out.prove;
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
    uint64_t from = low();
    uint64_t print = print_of(model.process, from);

    node->begun = true;
    node->process = model.process;
    node->whole = from == 0;
    node->next_seq = from;
    gossip_local_begin(node->g, name,
                       from == 0 ? print : rng_mix(print ^ rng_mix(from)),
                       from == 0, ask, model.now_us);
}

static bool
is_lost(const struct model_node *node)
{
    return !node->begun || node->process != model.process ||
           node->next_seq < low();
}

static void
answer(struct model_node *node)
{
    uint64_t ask = node->ask;

    node->ask = 0;
    if (node->prove && !is_lost(node)) {
        gossip_local_proved(node->g, name, ask, model.now_us);
    } else {
        begin_reading(node, ask);
    }
}

static void
read_on(struct model_node *node)
{
    uint64_t room[sizeof(struct event_record) / 8 + 8] = {0};
    struct event_record *record = (void *)room;

    if (!node->reads) {
        return;
    }
    if (node->ask != 0) {
        answer(node);
    } else if (is_lost(node)) {
        begin_reading(node, 0);
    }
    while (node->next_seq < model.count) {
        uint64_t seq = node->next_seq++;
        record->seq = seq;
        record->words_count = 2;
        record->words[0] = event_op(EVENT_STORE, TIER_DEVICE, 1);
        record->words[1] = seq + 1;
        gossip_local_record(node->g, name, record, print_of(model.process, seq),
                            true, model.now_us);
        pull(node);
    }
    if (!node->live) {
        node->live = true;
        gossip_local_live(node->g, name, true, model.now_us);
    }
    pull(node);
}

static void
set_role(uint32_t at)
{
    struct model_node *node = &model.node[at];
    uint32_t before = 0;
    uint64_t primary = 0;

    for (uint32_t i = at; i-- > 0;) {
        before += node->linked[i] != 0;
        primary = node->linked[i] != 0 ? node->linked[i] : primary;
    }
    bool reads = before < 2;
    if (node->reads && !reads) {
        gossip_local_end(node->g, name, model.now_us);
        node->begun = false;
        node->live = false;
        node->ask = 0;
    }
    node->reads = reads;
    gossip_role(node->g, name, reads ? before : GOSSIP_RANK_NONE, primary,
                model.now_us);
    pull(node);
}

/* Links */

static void
set_links(void)
{
    for (uint32_t a = 0; a < NODES; a++) {
        struct model_node *node = &model.node[a];
        for (uint32_t b = 0; b < NODES && node->g != NULL; b++) {
            const struct model_node *peer = &model.node[b];
            bool up =
                a != b && peer->g != NULL && !node->severed && !peer->severed;
            uint64_t id = up ? peer->id : 0;
            if (node->linked[b] != 0 && node->linked[b] != id) {
                gossip_peer_down(node->g, node->linked[b], model.now_us);
                node->linked[b] = 0;
            }
            if (id != 0 && node->linked[b] == 0) {
                CHECK(gossip_peer_up(node->g, id, model.now_us) == 0);
                node->linked[b] = id;
            }
        }
        if (node->g != NULL) {
            set_role(a);
        }
    }
}

static bool
carry(void)
{
    struct model_frame frames[FRAMES];
    uint32_t count = model.frames;

    memcpy(frames, model.frame, count * sizeof *frames);
    model.frames = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t n = 0; n < NODES; n++) {
            struct model_node *to = &model.node[n];
            if (to->g != NULL && to->id == frames[i].to) {
                int rc = gossip_recv(to->g, frames[i].from, frames[i].bytes,
                                     frames[i].len, model.now_us);
                CHECK(rc != GOSSIP_E_BAD);
                pull(to);
            }
        }
        free(frames[i].bytes);
    }
    return count > 0;
}

/* What must hold */

static bool
knows_all(const struct model_node *node)
{
    struct gossip_status s;

    if (node->g == NULL || !gossip_status_of(node->g, name, &s) ||
        s.epoch.id != model.process || !s.complete) {
        return false;
    }
    for (uint64_t i = 0; i < s.pos >> 8; i++) {
        if (!node->held[i]) {
            return false;
        }
    }
    return model.count == 0 || s.pos >> 8 == model.count - 1;
}

static void
check(void)
{
    const char *reason = NULL;

    for (uint32_t i = 0; i < NODES; i++) {
        struct model_node *node = &model.node[i];
        struct gossip_status s;
        if (node->g == NULL) {
            node->witness = false;
            continue;
        }
        if (!gossip_check(node->g, &reason)) {
            fail(reason, i);
        }
        CHECK(gossip_status_of(node->g, name, &s));
        bool follows = node->reads && node->live && node->begun &&
                       node->process == model.process &&
                       node->next_seq == model.count;
        bool knows = follows && s.reads && knows_all(node);
        if (node->witness && follows && !knows) {
            fail("a living reader forgot what it knew", i);
        }
        node->witness = knows;
    }
}

/* Time */

static void
settle(void)
{
    do {
        for (uint32_t i = 0; i < NODES; i++) {
            if (model.node[i].g != NULL) {
                read_on(&model.node[i]);
            }
        }
    } while (carry());
    check();
}

static void
run(uint64_t for_us)
{
    uint64_t end_us = model.now_us + for_us;

    settle();
    while (model.now_us < end_us) {
        uint64_t due_us = end_us;
        for (uint32_t i = 0; i < NODES; i++) {
            uint64_t at_us = model.node[i].g != NULL
                                 ? gossip_deadline(model.node[i].g)
                                 : UINT64_MAX;
            due_us = at_us < due_us ? at_us : due_us;
        }
        model.now_us = due_us > model.now_us ? due_us : model.now_us + 1;
        for (uint32_t i = 0; i < NODES; i++) {
            if (model.node[i].g != NULL) {
                gossip_tick(model.node[i].g, model.now_us);
                pull(&model.node[i]);
            }
        }
        settle();
    }
}

/* Letters */

static void
start(struct model_node *node)
{
    struct gossip_config config = gossip_config_default();

    config.workers_max = 1;
    *node = (struct model_node){.id = ++model.lives};
    CHECK(gossip_new(&node->g, &config, node->id, model.now_us, node->id) == 0);
    CHECK(gossip_stream_add(node->g, name, model.now_us) == 0);
    pull(node);
}

static void
stop(struct model_node *node)
{
    bool severed = node->severed;

    gossip_free(node->g);
    *node = (struct model_node){.severed = severed};
}

static void
engine_restart(void)
{
    model.process = rng_mix(model.process);
    model.count = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        model.node[i].witness = false;
    }
}

static void
play(char letter)
{
    struct model_node *node = NULL;

    switch (letter) {
    case 'p':
        for (uint32_t i = 0; i < BURST && model.count < KEYS; i++) {
            model.count++;
            settle(); /* readers keep up with it */
        }
        break;
    case 'a':
    case 'b':
    case 'c':
        node = &model.node[letter - 'a'];
        node->severed = !node->severed;
        break;
    case 'x':
    case 'y':
    case 'z':
        node = &model.node[letter - 'x'];
        if (node->g != NULL) {
            stop(node);
        } else {
            start(node);
        }
        break;
    case 'e':
        engine_restart();
        break;
    default:
        break;
    }
    set_links();
    run(letter == 'w' ? LONG_US : SHORT_US);
}

static void
tell(char letter)
{
    for (uint32_t i = 0; i < NODES && model.told; i++) {
        const struct model_node *node = &model.node[i];
        struct gossip_status s = {.pos = 0};
        if (node->g != NULL && gossip_status_of(node->g, name, &s)) {
            printf("%c node %u: epoch %u %016" PRIx64 " seq %" PRIu64
                   "%s%s%s%s\n",
                   letter, i, s.epoch.no, s.epoch.id, s.pos >> 8,
                   s.complete ? " complete" : "", s.reads ? " leads" : "",
                   node->reads ? " reads" : "", node->witness ? " knows" : "");
        }
    }
}

/* Everything heals; who knew it all then must not have known it in vain. */
static void
heal(void)
{
    bool known = false;

    for (uint32_t i = 0; i < NODES; i++) {
        known |= i < 2 && model.node[i].witness;
        model.node[i].severed = false;
        if (model.node[i].g == NULL) {
            start(&model.node[i]);
        }
    }
    set_links();
    run(QUIET_US);
    tell('.');
    for (uint32_t i = 0; i < NODES && known; i++) {
        if (!knows_all(&model.node[i])) {
            fail("not all learn what a living reader knows", i);
        }
    }
    model.witnesses += known;
}

static void
play_word(const char *word)
{
    model.word = word;
    model.now_us = 1000 * MS;
    model.lives = 0;
    model.process = rng_mix(1);
    model.count = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        start(&model.node[i]);
    }
    set_links();
    run(SHORT_US);
    play('p');
    for (; *word != '\0'; word++) {
        play(*word);
        tell(*word);
    }
    heal();
    for (uint32_t i = 0; i < NODES; i++) {
        stop(&model.node[i]);
    }
    for (uint32_t i = 0; i < model.frames; i++) {
        free(model.frame[i].bytes);
    }
    model.frames = 0;
    model.words++;
}

/* All words of that length. */
static void
play_all(uint32_t length)
{
    char word[16] = {0};
    uint32_t at[16] = {0};
    uint32_t i = 0;

    CHECK(length > 0 && length < sizeof word);
    do {
        for (i = 0; i < length; i++) {
            word[i] = letters[at[i]];
        }
        play_word(word);
        for (i = length; i > 0 && ++at[i - 1] == sizeof letters - 1; i--) {
            at[i - 1] = 0;
        }
    } while (i > 0);
}

int
main(int argc, char **argv)
{
    uint32_t length = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 4;

    if (argc > 2) {
        model.told = true;
        play_word(argv[2]);
        return 0;
    }
    for (uint32_t i = 1; i <= length; i++) {
        play_all(i);
    }
    printf("model: %" PRIu64 " words, %" PRIu64
           " at whose end a reader knew it all\n",
           model.words, model.witnesses);
    return model.witnesses > 0 ? 0 : 1;
}
