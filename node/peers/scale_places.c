/* Where nodes get requests: to gossip, and back. */
#include "node/peers/scale_places.h"

#include <stdio.h>
#include <string.h>

#include "node/peers/hints.h"

#define PLACE_ROW \
    UINT64_C(0x7363616c6570) /* "scalep", and the piece's number */
#define PIECE  8U
#define PIECES (CONFIG_LABEL_MAX / PIECE)
#define TOLD   1U

_Static_assert(PIECES *PIECE == CONFIG_LABEL_MAX, "a label is whole pieces");

static uint64_t
row_of(uint32_t piece)
{
    return PLACE_ROW << 8 | piece;
}

/* The same number whatever the machine's order of bytes. */
static uint64_t
piece_of(const char *label, uint32_t at)
{
    uint64_t piece = 0;

    for (uint32_t i = 0; i < PIECE; i++) {
        unsigned char c = (unsigned char)label[at * PIECE + i];
        piece |= (uint64_t)c << 8 * i;
    }
    return piece;
}

/* False: the label goes on. */
static bool
read_piece(uint64_t piece, char *to)
{
    for (uint32_t i = 0; i < PIECE; i++) {
        to[i] = (char)(piece >> 8 * i & 0xff);
        if (to[i] == '\0') {
            return true;
        }
    }
    return false;
}

void
scale_places_tell(struct cluster *cluster, const char *island, uint64_t now_us)
{
    char label[CONFIG_LABEL_MAX] = {0};

    (void)snprintf(label, sizeof label, "%s", island);
    for (uint32_t i = 0; i <= strlen(label) / PIECE; i++) {
        const struct gossip_gauge row = {.inflight = TOLD,
                                         .queued_tokens = piece_of(label, i)};
        (void)gossip_gauge_set(cluster_gossip(cluster), row_of(i), &row,
                               now_us);
    }
}

/* The island of the peer in that place. False: it told none. */
static bool
hear_label(struct gossip *gossip, uint32_t place, char label[CONFIG_LABEL_MAX])
{
    struct gossip_gauge_peer piece;

    for (uint32_t i = 0; i < PIECES; i++) {
        if (!gossip_gauge_of(gossip, place, row_of(i), &piece) || !piece.told ||
            piece.gauge.inflight != TOLD) {
            return false;
        }
        if (read_piece(piece.gauge.queued_tokens, label + (size_t)i * PIECE)) {
            return true;
        }
    }
    return false; /* it has no end */
}

static void
add(struct scale_places *places, const char *island, uint64_t requests)
{
    uint32_t at = 0;

    while (at < places->count &&
           strcmp(places->place[at].island, island) != 0) {
        at++;
    }
    if (at == SCALE_PLACES_MAX) {
        return;
    }
    if (at == places->count) {
        places->place[at] = (struct scale_place_of){.requests = 0};
        (void)snprintf(places->place[at].island, CONFIG_LABEL_MAX, "%s",
                       island);
        places->count++;
    }
    places->place[at].requests += requests;
}

void
scale_places_hear(struct cluster *cluster, const char *island,
                  uint64_t requests, struct scale_places *places)
{
    struct gossip *gossip = cluster_gossip(cluster);
    struct gossip_gauge_peer rate;
    char label[CONFIG_LABEL_MAX];

    places->count = 0;
    add(places, island, requests);
    for (uint32_t place = 0; place < GOSSIP_PEERS_MAX; place++) {
        if (gossip_gauge_of(gossip, place, HINTS_NODE_GAUGE, &rate) &&
            hear_label(gossip, place, label)) {
            add(places, label, rate.gauge.inflight);
        }
    }
}
