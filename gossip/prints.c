/*
 * The fingerprints of the batches that this node's readings had last. The log's
 * bytes are for peers that fall behind by a moment, and are soon gone on a busy
 * engine. A node that comes back from a partition may be further behind, and may
 * still be the one that knows the process from its start: fingerprints are small
 * enough to reach back as far as engines repeat their batches.
 */
#include <stdlib.h>

#include "gossip/gossip_internal.h"

void
gossip_prints_begin(struct gossip_prints *prints)
{
    CHECK(prints->low <= prints->high);
    prints->unproved = true;
}

static void
restart(struct gossip_prints *prints, uint64_t seq)
{
    prints->low = seq;
    prints->high = seq;
}

void
gossip_prints_add(struct gossip_prints *prints, uint64_t seq, uint32_t print)
{
    uint32_t known = 0;
    bool had = gossip_prints_at(prints, seq, &known);
    bool follows = seq == prints->high && !prints->unproved;

    CHECK(prints->high - prints->low <= GOSSIP_PRINTS);
    if (prints->print == NULL) {
        prints->print = malloc(GOSSIP_PRINTS * sizeof *prints->print);
    }
    if (prints->print == NULL || (had && known == print)) {
        prints->unproved = prints->unproved && !had;
        return;
    }
    if (had || !follows) {
        restart(prints, seq); /* another process, or it may be */
    }
    prints->unproved = false;
    prints->print[seq % GOSSIP_PRINTS] = print;
    prints->high = seq + 1;
    if (prints->high - prints->low > GOSSIP_PRINTS) {
        prints->low++;
    }
    CHECK(prints->low < prints->high);
}

bool
gossip_prints_at(const struct gossip_prints *prints, uint64_t seq,
                 uint32_t *print)
{
    if (seq < prints->low || seq >= prints->high) {
        return false;
    }
    CHECK(prints->print != NULL);
    *print = prints->print[seq % GOSSIP_PRINTS];
    return true;
}

void
gossip_prints_fini(struct gossip_prints *prints)
{
    free(prints->print);
    *prints = (struct gossip_prints){.print = NULL};
}
