/* Rewrites frames as a later version would write them. */
#include "chaos/sim/sim_skew_internal.h"

#define HEAD_LATER  (FRAME_HEAD_SIZE + 8U)
#define SUM_AT      32U
#define EACH        24U /* frames between two strange ones */
#define TYPE_LATER  9U
#define MAJOR_LATER (FRAME_MAJOR_MAX + 1U)

/* The first bytes of bodies, as cluster.c has them; 5 and on are later ones. */
enum {
    BODY_MEMBER = 1,
    BODY_GOSSIP,
    BODY_ROSTER,
    BODY_CLAIMS,
    BODY_LATER = 0x7f,
};

/* Frames of a node of a later version. */
static const struct {
    uint8_t bytes[12];
    uint32_t len;
    int outcome; /* from a peer */
} strange[] = {
    {{BODY_LATER, 1, 2, 3}, 4, CLUSTER_E_UNKNOWN},
    {{BODY_MEMBER, 0x81, 0xa1, 'k', 99}, 5, CLUSTER_E_UNKNOWN},
    {{BODY_GOSSIP, 200, 0, 1, 2, 3}, 6, 0},
    {{BODY_GOSSIP, 2, 0x80, 255, 255}, 5, 0},
    {{BODY_ROSTER, 77, 1, 2}, 4, 0},
};

#define STRANGE (sizeof strange / sizeof strange[0])

/* With eight bytes more in its head, sealed again. */
static void
make_later(uint8_t *bytes, size_t size)
{
    uint64_t body_size = size - HEAD_LATER;

    bytes[7] = HEAD_LATER;
    for (uint32_t i = 0; i < 4; i++) {
        bytes[24 + i] = (uint8_t)(body_size >> (8 * i));
    }
    uint64_t sum = key_digest((struct slice){(const char *)bytes, SUM_AT});
    sum = key_next(sum, bytes + SUM_AT + 8, size - SUM_AT - 8);
    for (uint32_t i = 0; i < 8; i++) {
        bytes[SUM_AT + i] = (uint8_t)(sum >> (8 * i));
    }
}

/* A frame of the link is read as it should be: its outcome. */
static int
read_framed(struct sim_world *w, uint8_t major, uint8_t type,
            const uint8_t *body, size_t len, struct frame *frame)
{
    size_t size = HEAD_LATER + len;

    buf_clear(&w->payload);
    char *room = buf_reserve(&w->payload, size);
    CHECK(room != NULL);
    uint8_t *bytes = (uint8_t *)room;
    memset(bytes, 0, HEAD_LATER);
    memcpy(bytes + HEAD_LATER, body, len);
    *frame = (struct frame){.major = major,
                            .minor = FRAME_MINOR + 1,
                            .type = type,
                            .session = 1,
                            .sequence = 1};
    frame_seal(frame, bytes, size);
    make_later(bytes, size);
    return frame_read(bytes, size, frame);
}

static void
check_links(struct sim_world *w, uint32_t to, const uint8_t *body, size_t len)
{
    struct frame frame;

    if (read_framed(w, FRAME_MAJOR_MAX, FRAME_DATA, body, len, &frame) != 0 ||
        frame.body.len != len || memcmp(frame.body.ptr, body, len) != 0) {
        sim_fail(w, "a longer head is not skipped", to, UINT32_MAX);
    }
    if (read_framed(w, FRAME_MAJOR_MAX, TYPE_LATER, body, len, &frame) != 0 ||
        frame.type != TYPE_LATER) {
        sim_fail(w, "an unknown frame is not told as one", to, UINT32_MAX);
    }
    if (read_framed(w, MAJOR_LATER, FRAME_DATA, body, len, &frame) !=
            FRAME_E_VERSION ||
        frame.major != MAJOR_LATER) {
        sim_fail(w, "another major version is not refused", to, UINT32_MAX);
    }
    sim_saw(w, SIM_SAW_OTHER_MAJOR, 1);
}

/* All counters of refused and skipped frames. */
static uint64_t
skipped(struct cluster *cluster)
{
    struct cluster_stats c;
    struct gossip_stats g;
    struct roster_stats r;

    cluster_stats(cluster, &c);
    gossip_stats(cluster_gossip(cluster), &g);
    roster_stats(cluster_roster(cluster), &r);
    return c.frames_unknown + c.frames_stranger + g.frames_unknown +
           r.frames_unknown;
}

static void
say_strange(struct sim_world *w, uint32_t from, uint32_t to)
{
    uint32_t which = sim_below(&w->chaos[SIM_SKEW], STRANGE);
    struct cluster *cluster = w->nodes[to].cluster;
    uint64_t roster = roster_digest(cluster_roster(cluster));
    uint32_t alive = member_count_alive(cluster_members(cluster));
    uint64_t before = skipped(cluster);

    int rc = cluster_recv(
        cluster, w->nodes[from].id.word[0],
        (struct slice){(const char *)strange[which].bytes, strange[which].len},
        sim_now(w, to));
    if (rc != strange[which].outcome && rc != CLUSTER_E_STRANGER) {
        sim_fail(w, "what a later version says is not skipped", to, which);
    } else if (skipped(cluster) == before) {
        sim_fail(w, "what was skipped is not counted", to, which);
    } else if (roster_digest(cluster_roster(cluster)) != roster ||
               member_count_alive(cluster_members(cluster)) != alive) {
        sim_fail(w, "what was skipped had an effect", to, which);
    }
    sim_saw(w, SIM_SAW_SKIPPED, 1);
}

/* A msgpack map of SIM_SKEW_MORE bytes with an unknown key: a bin of nils. */
static void
append_map(uint8_t *bytes)
{
    memset(bytes, 0x5a, SIM_SKEW_MORE);
    bytes[0] = 0x81;
    bytes[1] = 0xc4;
    bytes[2] = SIM_SKEW_MORE - 4;
    bytes[SIM_SKEW_MORE - 1] = 0xc0;
}

bool
sim_skew_is_later(const struct sim_world *w, uint32_t node)
{
    bool later = (w->options.seed >> 1 ^ node) % 2 == 0;

    return sim_has(w, SIM_SKEW) && later && w->nodes[node].up;
}

size_t
sim_skew_frame(struct sim_world *w, uint32_t from, uint32_t to, uint8_t *body,
               size_t len)
{
    if (!sim_skew_is_later(w, from)) {
        return len;
    }
    if (sim_below(&w->chaos[SIM_SKEW], EACH) == 0 &&
        (w->quiet || sim_may_break(w, SIM_SKEW))) {
        check_links(w, to, body, len);
        say_strange(w, from, to);
    }
    if (body[0] == BODY_GOSSIP) {
        return len;
    }
    append_map(body + len);
    return len + SIM_SKEW_MORE;
}
