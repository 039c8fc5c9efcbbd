/*
 * Links between nodes, as link.h promises them: in order per sender and
 * channel, each frame at most once, up when both sides hear each other, down
 * when the other one is silent for too long or known to be gone. What is lost
 * is sent again, as TCP does, until the link is given up. The stress mode
 * breaks these promises: frames are lost, doubled and reordered.
 */
#include <stdio.h>
#include <stdlib.h>

#include "chaos/sim/sim_skew_internal.h"

#define REDIAL_MS     1000U
#define REDIAL_JITTER 250U
#define SILENT_MS     10000U
#define STALE_MS      2000U
#define AGAIN_MS      200U /* TCP sends again */
#define FEW           7U
#define PIPES         (FEW * FEW + SIM_NODES_MAX * SIM_NODES_MAX)

uint32_t
sim_net_node(const struct sim_world *w, const char *address)
{
    unsigned node = 0;

    if (sscanf(address, "10.0.0.%u:7946", &node) != 1 || node == 0 ||
        node > w->nodes_count) {
        return UINT32_MAX;
    }
    return node - 1;
}

/* Pipes between the first seven nodes have numbers of their own: they are part
 * of the hashes of seeds, whose worlds have no more nodes. */
static uint32_t
pipe_of(uint32_t from, uint32_t to)
{
    CHECK(from < SIM_NODES_MAX && to < SIM_NODES_MAX);
    return from < FEW && to < FEW ? from * FEW + to
                                  : FEW * FEW + from * SIM_NODES_MAX + to;
}

static uint32_t
from_of(uint32_t pipe)
{
    return pipe < FEW * FEW ? pipe / FEW : (pipe - FEW * FEW) / SIM_NODES_MAX;
}

static uint32_t
to_of(uint32_t pipe)
{
    return pipe < FEW * FEW ? pipe % FEW : (pipe - FEW * FEW) % SIM_NODES_MAX;
}

static uint64_t
session_of(const struct sim_world *w, uint32_t node)
{
    return w->nodes[node].up ? w->nodes[node].id.word[0] : 0;
}

static uint64_t
delay(struct sim_world *w, uint32_t to)
{
    uint64_t us = w->delay_us + rng_below(&w->rng, w->jitter_us + 1);

    if (sim_has(w, SIM_LOSS) &&
        sim_chance(&w->chaos[SIM_LOSS], w->loss_permille)) {
        us += AGAIN_MS * SIM_MS;
        w->result->faults[SIM_LOSS]++;
    }
    return us + w->slow_us[to];
}

/* Both ways, and both there to take part. */
static bool
can_meet(const struct sim_world *w, uint32_t a, uint32_t b)
{
    return !w->severed[a][b] && !w->severed[b][a] && sim_runs(w, a) &&
           sim_runs(w, b);
}

/* Lanes */

static void
clear_channel(struct sim_channel *channel)
{
    while (channel->first != NULL) {
        struct sim_frame *frame = channel->first;
        channel->first = frame->next;
        free(frame);
    }
    channel->last = NULL;
    channel->count = 0;
    CHECK(channel->first == NULL && channel->last == NULL);
}

static void
arm(struct sim_world *w, uint32_t pipe, uint32_t channel, uint64_t at_us)
{
    struct sim_channel *l =
        &w->pipes[from_of(pipe)][to_of(pipe)].channels[channel];

    if (!l->armed && l->first != NULL) {
        l->armed = true;
        sim_add(w, at_us > w->time.now_us ? at_us : w->time.now_us,
                SIM_EV_FRAME, pipe, channel);
    }
}

static struct sim_frame *
make_frame(struct sim_world *w, uint32_t from, uint32_t to,
           const struct cluster_out *out)
{
    struct sim_frame *frame =
        malloc(sizeof *frame + out->tail.len + 1 + SIM_SKEW_MORE);

    CHECK(frame != NULL);
    *frame = (struct sim_frame){
        .sent_us = w->time.now_us,
        .from = session_of(w, from),
        .pipe = pipe_of(from, to),
        .len = (uint32_t)out->tail.len + 1,
    };
    frame->bytes[0] = out->head;
    if (out->tail.len != 0) {
        memcpy(frame->bytes + 1, out->tail.ptr, out->tail.len);
    }
    return frame;
}

static void
queue_frame(struct sim_world *w, struct sim_channel *channel,
            struct sim_frame *frame)
{
    uint64_t ready = w->time.now_us + delay(w, to_of(frame->pipe));

    CHECK((channel->first == NULL) == (channel->last == NULL));
    channel->last_us = ready > channel->last_us ? ready : channel->last_us;
    frame->ready_us = channel->last_us;
    if (channel->last != NULL) {
        channel->last->next = frame;
    } else {
        channel->first = frame;
    }
    channel->last = frame;
    channel->count++;
    CHECK(frame->ready_us >= w->time.now_us && channel->count > 0);
}

/* Datagrams */

static void
fly(struct sim_world *w, struct sim_frame *frame)
{
    uint32_t slot;

    if (w->datagrams_free_count == 0) {
        uint32_t size = w->datagrams_size * 2 + 64;
        w->datagrams = realloc(w->datagrams, size * sizeof *w->datagrams);
        w->datagrams_free =
            realloc(w->datagrams_free, size * sizeof *w->datagrams_free);
        CHECK(w->datagrams != NULL && w->datagrams_free != NULL);
        for (uint32_t i = size; i-- > w->datagrams_size;) {
            w->datagrams[i] = NULL;
            w->datagrams_free[w->datagrams_free_count++] = i;
        }
        w->datagrams_size = size;
    }
    slot = w->datagrams_free[--w->datagrams_free_count];
    w->datagrams[slot] = frame;
    sim_add(w,
            w->time.now_us + delay(w, to_of(frame->pipe)) +
                rng_below(&w->chaos[SIM_DATAGRAM], 20 * SIM_MS),
            SIM_EV_DATAGRAM, frame->pipe, slot);
    CHECK(frame->pipe < PIPES);
}

/* True: it was sent that way. */
static bool
send_datagram(struct sim_world *w, uint32_t from, uint32_t to,
              const struct cluster_out *out)
{
    struct rng *rng = &w->chaos[SIM_DATAGRAM];

    if (!sim_has(w, SIM_DATAGRAM) || w->quiet) {
        return false;
    }
    if (sim_chance(rng, 60)) {
        w->result->faults[SIM_DATAGRAM]++;
        return true;
    }
    fly(w, make_frame(w, from, to, out));
    if (sim_chance(rng, 60)) {
        w->result->faults[SIM_DATAGRAM]++;
        fly(w, make_frame(w, from, to, out));
    }
    return true;
}

/* Sending */

static void
know(struct sim_world *w, uint32_t from, uint32_t to)
{
    struct sim_pipe *pipe = &w->pipes[from][to];

    if (!pipe->known) {
        pipe->known = true;
        sim_net_dial(w, from, to);
    }
}

void
sim_send(struct sim_world *w, uint32_t from, const struct cluster_out *out)
{
    uint32_t to = sim_net_node(w, out->address);
    enum mesh_channel channel =
        out->channel == CLUSTER_CTL ? MESH_CTL : MESH_BULK;

    sim_hash(w, key_digest(out->tail) + out->head);
    if (to == UINT32_MAX || to == from) {
        return;
    }
    struct sim_pipe *pipe = &w->pipes[from][to];
    struct sim_channel *l = &pipe->channels[channel];
    know(w, from, to);
    if (channel == MESH_BULK && (!pipe->up || pipe->lagging)) {
        return;
    }
    if (l->count >= (channel == MESH_BULK ? w->bulk_frames : SIM_CTL_FRAMES)) {
        sim_saw(w, SIM_SAW_QUEUE_DROPPED, 1);
        if (channel == MESH_BULK) {
            clear_channel(l);
            pipe->lagging = true;
        }
        return;
    }
    if (pipe->up && send_datagram(w, from, to, out)) {
        return;
    }
    queue_frame(w, l, make_frame(w, from, to, out));
    if (pipe->up) {
        arm(w, pipe_of(from, to), channel, l->first->ready_us);
    }
}

/* Receiving */

static void
hand_over(struct sim_world *w, struct sim_frame *frame)
{
    uint32_t from = from_of(frame->pipe);
    uint32_t to = to_of(frame->pipe);
    struct sim_node *node = &w->nodes[to];

    if (frame->from != session_of(w, from)) {
        sim_saw(w, SIM_SAW_LATE_FRAME, 1);
    }
    size_t len = sim_skew_frame(w, from, to, frame->bytes, frame->len);
    role_is_control();
    int rc =
        hub_recv(node->hub, frame->from,
                 sim_skew_record(
                     w, from, (struct slice){(const char *)frame->bytes, len}),
                 sim_now(w, to));
    if (rc == CLUSTER_E_STRANGER) {
        sim_saw(w, SIM_SAW_STRANGER, 1);
    } else if (rc == CLUSTER_E_BAD || rc == CLUSTER_E_UNKNOWN) {
        sim_fail(w, "a frame of ours made no sense", to, UINT32_MAX);
    }
    sim_node_pull(w, to);
}

static void
take_datagram(struct sim_world *w, uint32_t slot)
{
    struct sim_frame *frame = w->datagrams[slot];
    uint32_t from = from_of(frame->pipe);
    uint32_t to = to_of(frame->pipe);

    CHECK(frame != NULL && w->datagrams_free_count < w->datagrams_size);
    w->datagrams[slot] = NULL;
    w->datagrams_free[w->datagrams_free_count++] = slot;
    if (sim_runs(w, to) && !w->severed[from][to]) {
        hand_over(w, frame);
    }
    free(frame);
}

static struct sim_frame *
pop(struct sim_channel *channel)
{
    struct sim_frame *frame = channel->first;

    CHECK(frame != NULL && channel->count > 0);
    channel->first = frame->next;
    channel->last = channel->first != NULL ? channel->last : NULL;
    channel->count--;
    CHECK((channel->count == 0) == (channel->first == NULL));
    return frame;
}

static void
take_frame(struct sim_world *w, uint32_t at, uint32_t channel)
{
    uint32_t from = from_of(at);
    uint32_t to = to_of(at);
    struct sim_channel *l = &w->pipes[from][to].channels[channel];

    l->armed = false;
    if (l->first == NULL) { /* dropped for a full queue, which is empty now */
        w->pipes[from][to].lagging &= channel != MESH_BULK;
        return;
    }
    if (!w->nodes[to].up) {
        clear_channel(l);
        return;
    }
    if (w->severed[from][to] || !sim_runs(w, to)) {
        arm(w, at, channel, w->time.now_us + AGAIN_MS * SIM_MS);
        return;
    }
    if (l->first->ready_us > w->time.now_us) {
        arm(w, at, channel, l->first->ready_us);
        return;
    }
    struct sim_frame *frame = pop(l);
    bool stale = frame->from == session_of(w, from) && !w->pipes[from][to].up;
    if (!stale) {
        hand_over(w, frame);
    }
    free(frame);
    if (l->count == 0 && channel == MESH_BULK) {
        w->pipes[from][to].lagging = false;
    }
    if (l->first != NULL) {
        arm(w, at, channel, l->first->ready_us);
    }
}

/* Up and down */

void
sim_net_dial(struct sim_world *w, uint32_t from, uint32_t to)
{
    struct sim_pipe *pipe = &w->pipes[from][to];

    pipe->dials++;
    sim_add(w, w->time.now_us + w->delay_us, SIM_EV_DIAL, pipe_of(from, to),
            pipe->dials);
}

static void
tell_up(struct sim_world *w, uint32_t from, uint32_t to)
{
    CHECK(from != to);
    sim_add(w, w->time.now_us + delay(w, from), SIM_EV_UP, pipe_of(from, to),
            session_of(w, to));
}

static void
dial(struct sim_world *w, uint32_t from, uint32_t to, uint64_t number)
{
    struct sim_pipe *pipe = &w->pipes[from][to];

    if (number != pipe->dials || pipe->up || !w->nodes[from].up) {
        return;
    }
    if (can_meet(w, from, to)) {
        know(w, to, from); /* dialled back */
        tell_up(w, from, to);
        if (!w->pipes[to][from].up ||
            w->pipes[to][from].session != session_of(w, from)) {
            tell_up(w, to, from);
        }
    }
    uint64_t wait_ms = REDIAL_MS + sim_below(&w->rng, REDIAL_JITTER);
    sim_add(w, w->time.now_us + wait_ms * SIM_MS, SIM_EV_DIAL,
            pipe_of(from, to), number);
}

static void
expect_silence(struct sim_world *w, uint32_t from, uint32_t to)
{
    if (w->pipes[from][to].up) {
        sim_add(w,
                w->time.now_us + SILENT_MS * SIM_MS +
                    sim_below(&w->rng, 1000 * SIM_MS),
                SIM_EV_SILENT, pipe_of(from, to), w->pipes[from][to].session);
    }
}

/* The other end of it was closed: `from` hears of it, or of nothing more. */
static void
tell_down(struct sim_world *w, uint32_t from, uint32_t to)
{
    const struct sim_pipe *pipe = &w->pipes[from][to];

    if (pipe->up && !w->severed[to][from]) {
        sim_add(w, w->time.now_us + delay(w, from), SIM_EV_DOWN,
                pipe_of(from, to), pipe->session);
    } else {
        expect_silence(w, from, to);
    }
}

/* The side of `from` gives the link up. */
static void
go_down(struct sim_world *w, uint32_t from, uint32_t to)
{
    struct sim_pipe *pipe = &w->pipes[from][to];

    CHECK(pipe->up && from != to);
    pipe->up = false;
    pipe->lagging = false;
    for (uint32_t channel = 0; channel < MESH_CHANNELS; channel++) {
        clear_channel(&pipe->channels[channel]);
        clear_channel(
            &w->pipes[to][from].channels[channel]); /* no process takes them */
    }
    sim_trace(w, "down", from, to);
    tell_down(w, to, from);
    role_is_control();
    hub_link_down(w->nodes[from].hub, w->nodes[to].address, sim_now(w, from));
    sim_node_pull(w, from);
    sim_net_dial(w, from, to);
}

static void
drop_stale(struct sim_world *w, struct sim_channel *channel)
{
    while (channel->first != NULL &&
           channel->first->sent_us + STALE_MS * SIM_MS < w->time.now_us) {
        free(pop(channel));
    }
}

static void
go_up(struct sim_world *w, uint32_t from, uint32_t to, uint64_t session)
{
    struct sim_pipe *pipe = &w->pipes[from][to];

    if (!sim_runs(w, from) || session != session_of(w, to) ||
        w->severed[from][to] || w->severed[to][from] ||
        (pipe->up && pipe->session == session)) {
        return;
    }
    if (pipe->up) {
        go_down(w, from, to);
    }
    pipe->up = true;
    pipe->session = session;
    sim_trace(w, "up", from, to);
    role_is_control();
    hub_link_up(w->nodes[from].hub, w->nodes[to].address, session,
                sim_now(w, from));
    sim_node_pull(w, from);
    for (uint32_t channel = 0; channel < MESH_CHANNELS; channel++) {
        drop_stale(w, &pipe->channels[channel]);
        arm(w, pipe_of(from, to), channel, w->time.now_us + w->delay_us);
    }
}

/* Said with the session that is meant: a link that came since is another. */
static void
hear_down(struct sim_world *w, uint32_t from, uint32_t to, uint64_t session)
{
    const struct sim_pipe *pipe = &w->pipes[from][to];

    if (!pipe->up || pipe->session != session || !w->nodes[from].up) {
        return;
    }
    if (!sim_runs(w, from)) {
        sim_add(w, w->nodes[from].paused_us + SIM_MS, SIM_EV_DOWN,
                pipe_of(from, to), session);
        return;
    }
    go_down(w, from, to);
}

static void
hear_silence(struct sim_world *w, uint32_t from, uint32_t to, uint64_t session)
{
    uint64_t since = w->severed_us[to][from];
    bool silent =
        w->severed[to][from] && w->time.now_us - since >= SILENT_MS * SIM_MS;

    if (silent || !sim_runs(w, to) || session_of(w, to) != session) {
        hear_down(w, from, to, session);
    }
}

void
sim_net_sever(struct sim_world *w, uint32_t from, uint32_t to, bool severed)
{
    if (w->severed[from][to] == severed) {
        return;
    }
    w->severed[from][to] = severed;
    w->severed_us[from][to] = w->time.now_us;
    w->disturbed_us = w->time.now_us;
    if (severed) {
        expect_silence(w, to, from);
    }
}

/* A node that falls silent without breaking its connections. */
void
sim_net_silence(struct sim_world *w, uint32_t node)
{
    for (uint32_t other = 0; other < w->nodes_count; other++) {
        if (other != node) {
            expect_silence(w, other, node);
        }
    }
}

/* A process is gone: peers that can notice do so, the others hear nothing more.
 * Frames that it had sent are still in transit. */
void
sim_net_gone(struct sim_world *w, uint32_t node)
{
    for (uint32_t other = 0; other < w->nodes_count; other++) {
        tell_down(w, other, node);
        struct sim_pipe *ours = &w->pipes[node][other];
        ours->up = false;
        ours->known = false;
        ours->lagging = false;
        ours->dials++;
    }
}

void
sim_net_doubt(struct sim_world *w, uint32_t from, const char *address)
{
    uint32_t to = sim_net_node(w, address);

    if (to == UINT32_MAX || !w->pipes[from][to].up || can_meet(w, from, to)) {
        return;
    }
    go_down(w, from, to);
}

void
sim_net_drop(struct sim_world *w, uint32_t from, const char *address)
{
    uint32_t to = sim_net_node(w, address);

    if (to != UINT32_MAX) {
        struct sim_pipe *pipe = &w->pipes[from][to];
        tell_down(w, to, from);
        pipe->up = false;
        pipe->known = false;
        pipe->lagging = false;
        pipe->dials++;
        for (uint32_t channel = 0; channel < MESH_CHANNELS; channel++) {
            clear_channel(&pipe->channels[channel]);
        }
    }
}

void
sim_net_event(struct sim_world *w, const struct virtual_event *event)
{
    uint32_t from = from_of(event->who);
    uint32_t to = to_of(event->who);

    switch ((int)event->kind) {
    case SIM_EV_FRAME:
        take_frame(w, event->who, (uint32_t)event->what);
        break;
    case SIM_EV_DATAGRAM:
        take_datagram(w, (uint32_t)event->what);
        break;
    case SIM_EV_DIAL:
        dial(w, from, to, event->what);
        break;
    case SIM_EV_UP:
        go_up(w, from, to, event->what);
        break;
    case SIM_EV_DOWN:
        hear_down(w, from, to, event->what);
        break;
    default:
        hear_silence(w, from, to, event->what);
        break;
    }
}

void
sim_net_fini(struct sim_world *w)
{
    for (uint32_t i = 0; i < SIM_NODES_MAX * SIM_NODES_MAX; i++) {
        struct sim_pipe *pipe = &w->pipes[i / SIM_NODES_MAX][i % SIM_NODES_MAX];
        for (uint32_t channel = 0; channel < MESH_CHANNELS; channel++) {
            clear_channel(&pipe->channels[channel]);
        }
    }
    for (uint32_t i = 0; i < w->datagrams_size; i++) {
        free(w->datagrams[i]);
    }
    free(w->datagrams);
    free(w->datagrams_free);
}
