/* The names that nodes keep of engines' blocks: those of the readers' ledgers. */
#include "chaos/sim/sim_world_internal.h"

/* What the ledger of a node's own reading has, as a table's digest. */
static uint64_t
ledger_digest(const struct sim_node *n, uint32_t stream)
{
    struct names_room room = {.bytes_max = SIZE_MAX};
    struct names table = {.count = 0};
    struct names_said said = {.last = 0};

    words_init(&said.words, (size_t)1 << 24);
    ledger_say_all(n->tools.ledger, stream, &said);
    CHECK(!said.words.failed);
    CHECK(names_apply(&table, &room, said.words.word, said.words.count) == 0);
    uint64_t digest = table.digest;
    names_clear(&table, &room);
    words_fini(&said.words);
    return digest;
}

void
sim_names_check(struct sim_world *w, uint32_t node, uint32_t engine)
{
    const struct sim_node *n = &w->nodes[node];
    const struct decoder *decoder = &n->readers[engine].decoder;
    struct gossip_status s;

    /* The ledger of who reads again from the middle has less than what was told. */
    if (!n->readers[engine].on || !decoder->has_ledger ||
        !kv_stream_is_whole(decoder->stream) ||
        !gossip_status_of(cluster_gossip(n->cluster), w->engines[engine].stream,
                          &s) ||
        !s.reads || !s.names_known || !s.complete ||
        s.names_pos >> 8 != kv_stream_next_seq(decoder->stream) - 1) {
        return;
    }
    sim_saw(w, SIM_SAW_NAMES, true);
    if (s.names_digest != ledger_digest(n, decoder->ledger_stream)) {
        sim_fail(w, "the names are not those of the reader's ledger", node,
                 engine);
    }
}
