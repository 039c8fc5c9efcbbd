/*
 * What can happen to a mesh of three nodes around one engine with a short
 * replay, tried out in every order: nodes are severed and return, are killed or
 * leave, start empty or with their disk, the engine publishes more than it
 * repeats, or restarts, and single connections are cut. All words of so many
 * letters are played against the gossip core, on virtual time.
 *
 * What must hold is the rule of gossip.h. As long as one node that runs knows
 * all of the living process, the engine's names of the blocks included, and the
 * replay reaches back to it, no decision of a node ends that; and once all is
 * healed, all nodes know all. Of a process that nobody can know all of any more,
 * they know as much then as the best of its readers did.
 *
 *   model LETTERS [WORD]    all words up to that length, or one, told in full
 *                           (with planted bugs: model MUTANT LETTERS [WORD])
 *
 * Of the members that a node knows of and that do not say that they cannot reach
 * the engine, the first two read: nodes 0 and 1, if all is well. A word is made
 * of
 *   p        the engine publishes more than it repeats
 *   a b c    node 0, 1, 2 is severed from the others, or is not any more
 *   x y z    node 0, 1, 2 is killed; or it starts, empty
 *   l m n    node 0, 1, 2 leaves while the engine publishes more than it
 *            repeats; or it starts with the disk that it had at its end
 *   e        the engine restarts
 *   w        time passes, more than most clocks of gossip wait for; who cannot
 *            reach the engine says so from then on
 *   d f g    the connection between nodes 0 and 1, 1 and 2, 2 and 0 is cut, or
 *            is not any more; each is still a member for the other as long as
 *            the third one sees both
 *   h i j    node 0, 1, 2 cannot reach the engine, or can again
 * The last six are in words of up to four letters, if longer ones are played:
 * these would be too many, and find what is open (README.md).
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/model/model_internal.h"
#include "index/base/mutant.h"
#include "index/base/rng.h"

#define BURST    6U
#define MS       UINT64_C(1000)
#define SHORT_US (50 * MS)
#define LONG_US  (1500 * MS)
#define QUIET_US (8000 * MS)

#ifdef KVASIR_MUTANTS
const bool model_mutated = true;
enum mutant mutant_on;

static const char *const mutants[] = {
#define MUTANT_NAME(NAME, name, help) [MUTANT_##NAME] = #name,
    MUTANTS(MUTANT_NAME)
#undef MUTANT_NAME
};
#else
const bool model_mutated = false;
#endif

static const char letters[] = "pabcxyzlmnewdfghij";

#define LETTERS      (sizeof letters - 1)
#define LETTERS_LONG 12U /* of the longest words, and of all above WORD_SHORT */
#define WORD_SHORT   4U

/* Longer ones, with letters of the short ones, that failed once. */
static const char *const pinned[] = {"ehmph", "ehmhp", "gmhll",
                                     "hmywp", "hmhmm", "hipwp",
                                     "efhmp", "fhemp", "iehmp"};

/* Roles */

/* Whether it is a member for the node: each helps the two others to find each
 * other. */
static bool
is_member(uint32_t at, uint32_t of)
{
    const struct model_node *third =
        &model.node[(2 * MODEL_NODES - at - of) % MODEL_NODES];

    return at == of || model.node[of].linked[at] != 0 ||
           (model.node[of].g != NULL && third->linked[at] != 0 &&
            third->linked[of] != 0);
}

/* As far as the node knows: claims come by links, and stay. */
static bool
is_able(uint32_t at, uint32_t of)
{
    return at == of ? !model.node[at].unable : !model.node[at].claims[of];
}

/* Members that cannot reach the engine count only where none can. */
static void
set_role(uint32_t at)
{
    struct model_node *node = &model.node[at];
    uint32_t order[MODEL_NODES];
    uint32_t count = 0;
    uint32_t rank = GOSSIP_RANK_NONE;
    bool any = false;

    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        any |= is_member(at, i) && is_able(at, i);
    }
    for (uint32_t i = 0; i < MODEL_NODES && count < MODEL_READERS; i++) {
        if (is_member(at, i) && (is_able(at, i) || !any)) {
            rank = i == at ? count : rank;
            order[count++] = i;
        }
    }
    CHECK(count > 0);
    bool reads = rank != GOSSIP_RANK_NONE;
    uint64_t primary = rank != 0 ? model.node[order[0]].id : 0;
    if (node->reads && !reads) {
        model_node_end(node);
    }
    node->reads_us = node->reads ? node->reads_us : model.now_us;
    node->reads = reads;
    gossip_role(node->g, model_stream, rank, primary, model.now_us);
    model_node_pull(node);
}

/* Links */

static bool
can_link(uint32_t a, uint32_t b)
{
    uint32_t first = (a + 1) % MODEL_NODES == b ? a : b;

    return a != b && model.node[a].g != NULL && model.node[b].g != NULL &&
           !model.node[a].severed && !model.node[b].severed &&
           !model.node[first].apart;
}

static void
set_link(struct model_node *node, uint32_t b, bool up)
{
    const struct model_node *peer = &model.node[b];
    uint64_t id = up ? peer->id : 0;

    if (node->linked[b] != 0 && node->linked[b] != id) {
        gossip_peer_down(node->g, node->linked[b], model.now_us);
        node->linked[b] = 0;
    }
    if (id != 0 && node->linked[b] == 0) {
        CHECK(gossip_peer_up(node->g, id, model.now_us) == 0);
        node->linked[b] = id;
    }
    if (up || peer->g == NULL) { /* a claim stays as long as its process */
        node->claims[b] = up && peer->unable;
    }
}

static void
set_links(void)
{
    for (uint32_t a = 0; a < MODEL_NODES; a++) {
        for (uint32_t b = 0; b < MODEL_NODES && model.node[a].g != NULL; b++) {
            set_link(&model.node[a], b, can_link(a, b));
        }
    }
    for (uint32_t a = 0; a < MODEL_NODES; a++) {
        if (model.node[a].g != NULL) {
            set_role(a);
        }
    }
}

static bool
carry(void)
{
    struct model_frame frames[MODEL_FRAMES];
    uint32_t count = model.frames;

    memcpy(frames, model.frame, count * sizeof *frames);
    model.frames = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t n = 0; n < MODEL_NODES; n++) {
            struct model_node *to = &model.node[n];
            if (to->g != NULL && to->id == frames[i].to) {
                int rc = gossip_recv(to->g, frames[i].from, frames[i].bytes,
                                     frames[i].len, model.now_us);
                CHECK(rc != GOSSIP_E_BAD);
                model_node_pull(to);
            }
        }
        free(frames[i].bytes);
    }
    return count > 0;
}

/* What must hold */

/* Whether someone can still know all of the living process: who reads it from
 * its first batch on, or goes on from names of a batch that is repeated. */
static bool
can_be_known(void)
{
    bool can = model_low() == 0;

    for (uint32_t i = 0; i < MODEL_NODES && !can; i++) {
        can = model_node_names(&model.node[i]) > model_low();
    }
    return can;
}

/* What happens to nodes and engines may end it, what nodes decide may not. */
static void
look(void)
{
    model.lost = model.lost || !can_be_known();
}

static void
check_node(uint32_t at)
{
    struct model_node *node = &model.node[at];
    const char *reason = NULL;
    struct gossip_status s;

    if (!gossip_check(node->g, &reason)) {
        model_fail(reason, at);
    }
    CHECK(gossip_status_of(node->g, model_stream, &s));
    bool follows = node->reads && node->live && node->begun &&
                   node->process == model.process &&
                   node->next_seq == model.count;
    bool knows = follows && s.reads && model_node_knows_all(node);
    if (node->witness && follows && !knows) {
        model_fail("a living reader forgot what it knew", at);
    }
    node->witness = knows;
}

static void
check(void)
{
    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        if (model.node[i].g != NULL) {
            check_node(i);
        }
    }
    if (!model.lost && !can_be_known()) {
        model_fail("the fleet forgot a living engine", MODEL_NODES);
    }
}

/* Time */

static void
settle(void)
{
    do {
        for (uint32_t i = 0; i < MODEL_NODES; i++) {
            if (model.node[i].g != NULL) {
                model_node_read(&model.node[i]);
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
        for (uint32_t i = 0; i < MODEL_NODES; i++) {
            uint64_t at_us = model.node[i].g != NULL
                                 ? gossip_deadline(model.node[i].g)
                                 : UINT64_MAX;
            due_us = at_us < due_us ? at_us : due_us;
        }
        model.now_us = due_us > model.now_us ? due_us : model.now_us + 1;
        for (uint32_t i = 0; i < MODEL_NODES; i++) {
            if (model.node[i].g != NULL) {
                gossip_tick(model.node[i].g, model.now_us);
                model_node_pull(&model.node[i]);
            }
        }
        settle();
    }
}

/* Letters */

/* Whether the node knows all, or has a peer that does. */
static bool
is_near_all(const struct model_node *node)
{
    bool near = model_node_names(node) == model.count;

    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        near |= node->linked[i] != 0 &&
                model_node_names(&model.node[i]) == model.count;
    }
    return near;
}

/* Whether one of these nodes reads along, and had the time to be handed the names:
 * what another node knows comes within two steps. */
static bool
is_read(const bool near[MODEL_NODES])
{
    bool read = false;

    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        const struct model_node *node = &model.node[i];
        read |= node->g != NULL && node->reads && node->live &&
                model.now_us - node->reads_us >= 2 * SHORT_US &&
                node->process == model.process &&
                node->next_seq == model.count && near[i];
    }
    return read;
}

static void
publish(void)
{
    bool near[MODEL_NODES]; /* before; what it decides then must not end it */

    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        near[i] = is_near_all(&model.node[i]);
    }
    for (uint32_t i = 0; i < BURST && model.count < MODEL_KEYS; i++) {
        bool read = is_read(near);
        model.count++;
        if (!read) {
            look();
        }
        settle(); /* readers keep up with it */
    }
}

/* Whether a peer that knows all hears what the node says last. One that has nothing
 * of a new process yet may not believe in it. */
static bool
is_heard(const struct model_node *node)
{
    bool heard = false;

    for (uint32_t i = 0; i < MODEL_NODES && model.count > 0; i++) {
        heard |= node->linked[i] != 0 &&
                 model_node_names(&model.node[i]) == model.count;
    }
    return heard;
}

/* Its last records are with its peers before it goes. */
static void
leave(struct model_node *node)
{
    bool heard = is_heard(node);

    publish();
    look();
    gossip_flush(node->g, model.now_us);
    model_node_pull(node);
    settle();
    model_node_stop(node);
    if (heard && !model.lost && !can_be_known()) {
        model_fail("a node took what it knew with it",
                   (uint32_t)(node - model.node));
    }
}

static void
engine_restart(void)
{
    model.process = rng_mix(model.process);
    model.count = 0;
    model.lost = false;
    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        model.node[i].witness = false;
    }
}

static void
play_cut(struct model_node *node, char letter)
{
    if (letter <= 'c') {
        node->severed = !node->severed;
    } else if (letter <= 'g') {
        node->apart = !node->apart;
    } else {
        node->cut = !node->cut;
        node->unable = false;
    }
}

static void
play_node(struct model_node *node, char letter)
{
    bool leaves = letter >= 'l' && letter <= 'n';

    if (letter <= 'j') {
        play_cut(node, letter);
    } else if (node->g == NULL) {
        model_node_start(node, leaves);
        model.lost = model.lost && !can_be_known();
    } else if (leaves) {
        leave(node);
    } else {
        model_node_stop(node);
    }
}

static void
play(char letter)
{
    static const char nodes[] = "abcxyzlmndfghij";
    const char *node = strchr(nodes, letter);

    if (node != NULL) {
        play_node(&model.node[(node - nodes) % MODEL_NODES], letter);
    } else if (letter == 'p') {
        publish();
    } else if (letter == 'e') {
        engine_restart();
    }
    for (uint32_t i = 0; i < MODEL_NODES && letter == 'w'; i++) {
        model.node[i].unable = model.node[i].cut && model.node[i].g != NULL;
    }
    look();
    set_links();
    run(letter == 'w' ? LONG_US : SHORT_US);
}

static void
tell(char letter)
{
    for (uint32_t i = 0; i < MODEL_NODES && model.told; i++) {
        const struct model_node *node = &model.node[i];
        struct gossip_status s = {.pos = 0};
        if (node->g != NULL && gossip_status_of(node->g, model_stream, &s)) {
            printf("%c node %u: epoch %u %016" PRIx64 " seq %" PRIu64
                   " of %" PRIu64 " names %" PRIu64 "%s%s%s%s%s\n",
                   letter, i, s.epoch.no, s.epoch.id, s.pos >> 8, model.count,
                   model_node_names(node), s.complete ? " complete" : "",
                   s.reads ? " leads" : "", node->reads ? " reads" : "",
                   node->witness ? " knows" : "", model.lost ? " (lost)" : "");
        }
    }
}

/* Blocks of the living process that the best of its readers knows. */
static uint64_t
best_known(void)
{
    uint64_t best = 0;

    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        const struct model_node *node = &model.node[i];
        struct gossip_status s;
        if (node->g != NULL && node->process == model.process && node->live &&
            gossip_status_of(node->g, model_stream, &s) && s.reads) {
            uint64_t blocks = model_node_blocks(node);
            best = blocks > best ? blocks : best;
        }
    }
    return best;
}

/* Everything heals; what could be known then must be known by all, and of a
 * part as much as its best reader knew. */
static void
heal(void)
{
    uint64_t best = best_known();

    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        model.node[i].severed = false;
        model.node[i].apart = false;
        model.node[i].cut = false;
        model.node[i].unable = false;
        if (model.node[i].g == NULL) {
            model_node_start(&model.node[i], false);
        }
    }
    set_links();
    run(QUIET_US);
    tell('.');
    for (uint32_t i = 0; i < MODEL_NODES && !model.lost; i++) {
        if (!model_node_knows_all(&model.node[i])) {
            model_fail("not all learn what can be known", i);
        }
    }
    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        if (model_node_blocks(&model.node[i]) < best) {
            model_fail("less is known than a reader knew", i);
        }
    }
    model.kept += !model.lost;
}

static void
begin(void)
{
    model.now_us = 1000 * MS;
    model.lives = 0;
    model.process = rng_mix(1);
    model.count = 0;
    model.lost = false;
    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        model.node[i] = (struct model_node){.id = 0};
        model_node_start(&model.node[i], false);
    }
    set_links();
    run(SHORT_US);
}

static void
end(void)
{
    for (uint32_t i = 0; i < MODEL_NODES; i++) {
        model_node_stop(&model.node[i]);
        model_node_fini(&model.node[i]);
    }
    for (uint32_t i = 0; i < model.frames; i++) {
        free(model.frame[i].bytes);
    }
    model.frames = 0;
}

static void
play_word(const char *word)
{
    model.word = word;
    begin();
    play('p');
    for (; *word != '\0'; word++) {
        play(*word);
        tell(*word);
    }
    heal();
    end();
    model.words++;
}

/* All words of that length, of the first `count` letters. */
static void
play_all(uint32_t length, uint32_t count)
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
        for (i = length; i > 0 && ++at[i - 1] == count; i--) {
            at[i - 1] = 0;
        }
    } while (i > 0);
}

int
main(int argc, char **argv)
{
#ifdef KVASIR_MUTANTS
    CHECK(argc > 1);
    do {
        mutant_on++;
        CHECK(mutant_on < MUTANT_KINDS);
    } while (strcmp(mutants[mutant_on], argv[1]) != 0);
    argc--;
    argv++;
#endif
    uint32_t length = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 4;

    if (argc > 2) {
        model.told = true;
        play_word(argv[2]);
        return 0;
    }
    /* What is freed is needed again at once: half the time would be the
     * kernel's. */
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
    (void)mallopt(M_MMAP_THRESHOLD, 4 << 20);
    for (uint32_t i = 1; i <= length; i++) {
        play_all(i, i < length && i <= WORD_SHORT ? LETTERS : LETTERS_LONG);
    }
    for (size_t i = 0; i < sizeof pinned / sizeof pinned[0]; i++) {
        play_word(pinned[i]);
    }
    printf("model: %" PRIu64 " words, %" PRIu64
           " at whose end all could be known, %" PRIu64
           " readings that went on from names\n",
           model.words, model.kept, model.resumed);
    return model.kept > 0 && model.resumed > 0 && !model_mutated ? 0 : 1;
}
