/* The packets under way, as a heap by arrival, and the hosts that take them. */
#include "member_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct net_packet {
    uint64_t at_us;
    uint64_t order;
    uint32_t to;
    uint32_t size;
    uint8_t *bytes;
};

static bool
sooner(const struct net_packet *a, const struct net_packet *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void
swap(struct net_packet *a, struct net_packet *b)
{
    struct net_packet was = *a;

    *a = *b;
    *b = was;
}

static void
push(struct net *net, struct net_packet packet)
{
    size_t at = net->heap_len;

    if (net->heap_len == net->heap_size) {
        net->heap_size = net->heap_size * 2 + 64;
        net->heap = realloc(net->heap, net->heap_size * sizeof *net->heap);
        CHECK(net->heap != NULL);
    }
    packet.order = net->order++;
    net->heap[net->heap_len++] = packet;
    while (at > 0 && sooner(&net->heap[at], &net->heap[(at - 1) / 2])) {
        swap(&net->heap[at], &net->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static struct net_packet
pop(struct net *net)
{
    struct net_packet first = net->heap[0];
    size_t at = 0;

    net->heap[0] = net->heap[--net->heap_len];
    for (;;) {
        size_t least = at;
        for (size_t kid = 2 * at + 1; kid <= 2 * at + 2; kid++) {
            if (kid < net->heap_len &&
                sooner(&net->heap[kid], &net->heap[least])) {
                least = kid;
            }
        }
        if (least == at) {
            return first;
        }
        swap(&net->heap[at], &net->heap[least]);
        at = least;
    }
}

static uint32_t
host_at(const char *address)
{
    unsigned host = NET_HOSTS;

    return sscanf(address, "10.0.0.%u:7946", &host) == 1 && host < NET_HOSTS
               ? host
               : NET_HOSTS;
}

static bool
chance(struct net *net, uint32_t permille)
{
    return permille > 0 && rng_below(&net->rng, 1000) < permille;
}

static void
transmit(struct net *net, uint32_t to, const uint8_t *bytes, size_t size)
{
    uint64_t jitter =
        net->jitter_us > 0 ? rng_below(&net->rng, net->jitter_us + 1) : 0;
    struct net_packet packet = {
        .at_us = net->now_us + net->delay_us + jitter,
        .to = to,
        .size = (uint32_t)size,
        .bytes = malloc(size),
    };

    CHECK(packet.bytes != NULL);
    memcpy(packet.bytes, bytes, size);
    push(net, packet);
}

static void
send_out(struct net *net, uint32_t from, const struct member_out *out)
{
    static uint8_t bytes[MEMBER_CODEC_MAX];
    size_t size = member_codec_write(out->message, bytes);
    uint32_t to = host_at(out->address);

    net->messages++;
    net->bytes += size;
    net->kinds[out->message->kind]++;
    if (to == NET_HOSTS || net->severed[from][to] ||
        chance(net, net->loss_permille)) {
        return;
    }
    transmit(net, to, bytes, size);
    if (chance(net, net->double_permille)) {
        transmit(net, to, bytes, size);
    }
}

static void
pump(struct net *net, uint32_t host)
{
    struct net_host *h = &net->host[host];
    struct member_out out;
    const char *reason;

    while (member_next_out(h->table, &out)) {
        if (out.kind == MEMBER_OUT_SEND) {
            send_out(net, host, &out);
            continue;
        }
        h->events[out.event]++;
        net->log[net->log_count++ % NET_EVENTS] = (struct net_event){
            .at_us = net->now_us,
            .host = host,
            .event = out.event,
            .about = out.about,
        };
    }
    if (!member_check(h->table, &reason)) {
        net->failed(reason);
    }
}

static void
stop(const char *reason)
{
    (void)fprintf(stderr, "broken: %s\n", reason);
    abort();
}

void
net_init(struct net *net, uint64_t seed)
{
    memset(net, 0, sizeof *net);
    rng_init(&net->rng, seed);
    net->now_us = 1000 * NET_S;
    net->config = member_config_default();
    net->delay_us = NET_MS / 2;
    net->failed = stop;
    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        (void)snprintf(net->host[i].address, MEMBER_ADDRESS_MAX,
                       "10.0.0.%u:7946", i);
    }
}

void
net_fini(struct net *net)
{
    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        net_crash(net, i);
    }
    while (net->heap_len > 0) {
        free(pop(net).bytes);
    }
    free(net->heap);
}

static bool
runs(const struct net *net, uint32_t host)
{
    const struct net_host *h = &net->host[host];

    return h->table != NULL && net->now_us >= h->paused_until_us;
}

void
net_start(struct net *net, uint32_t host, const char *name, uint32_t seed_host)
{
    struct net_host *h = &net->host[host];
    struct member_self self = {.id = {{rng_next(&net->rng), ++net->next_id}}};

    CHECK(h->table == NULL);
    if (name != NULL) {
        (void)snprintf(h->name, sizeof h->name, "%s", name);
    } else {
        (void)snprintf(h->name, sizeof h->name, "node-%u", host);
    }
    memcpy(self.name, h->name, sizeof self.name);
    memcpy(self.address, h->address, sizeof self.address);
    h->id = self.id;
    h->born_us = net->now_us;
    h->paused_until_us = 0;
    memset(h->events, 0, sizeof h->events);
    CHECK(member_new(&h->table, &net->config, &self, net->now_us,
                     rng_next(&net->rng)) == 0);
    pump(net, host);
    if (seed_host < NET_HOSTS) {
        net_hint(net, host, seed_host);
    }
}

void
net_hint(struct net *net, uint32_t host, uint32_t where)
{
    if (runs(net, host)) {
        member_hint(net->host[host].table, net->host[where].address,
                    net->now_us);
        pump(net, host);
    }
}

void
net_mesh(struct net *net, uint32_t count, uint64_t settle_us)
{
    for (uint32_t i = 0; i < count; i++) {
        net_start(net, i, NULL, 0);
    }
    net_run(net, settle_us);
}

void
net_crash(struct net *net, uint32_t host)
{
    member_free(net->host[host].table);
    net->host[host].table = NULL;
}

void
net_leave(struct net *net, uint32_t host)
{
    member_leave(net->host[host].table, net->now_us);
    pump(net, host);
    net_crash(net, host);
}

void
net_pause(struct net *net, uint32_t host, uint64_t span_us)
{
    net->host[host].paused_until_us = net->now_us + span_us;
}

void
net_sever(struct net *net, uint64_t from, uint64_t to, bool severed)
{
    for (uint32_t a = 0; a < 64; a++) {
        for (uint32_t b = 0; b < 64; b++) {
            if ((from >> a & 1) != 0 && (to >> b & 1) != 0) {
                net->severed[a][b] = severed;
            }
        }
    }
}

void
net_split(struct net *net, uint64_t one, uint64_t other)
{
    net_sever(net, one, other, true);
    net_sever(net, other, one, true);
}

void
net_heal(struct net *net)
{
    memset(net->severed, 0, sizeof net->severed);
}

void
net_links(struct net *net, uint32_t host, bool up)
{
    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        if (i != host && runs(net, i)) {
            member_link(net->host[i].table, net->host[host].address, up,
                        net->now_us);
            pump(net, i);
        }
    }
}

void
net_deliver(struct net *net, uint32_t host, const struct member_message *m)
{
    member_recv(net->host[host].table, m, net->now_us);
    pump(net, host);
}

/* What waited for a paused process arrives when it runs again. */
static void
arrive(struct net *net)
{
    static struct member_message message;
    struct net_packet packet = pop(net);
    const struct net_host *h = &net->host[packet.to];

    if (h->table != NULL && !runs(net, packet.to)) {
        packet.at_us = h->paused_until_us;
        push(net, packet);
        return;
    }
    if (h->table != NULL) {
        CHECK(member_codec_read(packet.bytes, packet.size, &message) == 0);
        net_deliver(net, packet.to, &message);
    }
    free(packet.bytes);
}

/* When a host's tick is due; a paused one's when it runs again. */
static uint64_t
due_us(const struct net *net, uint32_t host)
{
    const struct net_host *h = &net->host[host];
    uint64_t due = h->table != NULL ? member_deadline(h->table) : UINT64_MAX;

    return due < h->paused_until_us ? h->paused_until_us : due;
}

/* The next thing until then; false: there is none. */
static bool
step(struct net *net, uint64_t until_us)
{
    uint64_t at = net->heap_len > 0 ? net->heap[0].at_us : UINT64_MAX;
    uint32_t next = NET_HOSTS;

    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        if (net->host[i].table != NULL && due_us(net, i) < at) {
            at = due_us(net, i);
            next = i;
        }
    }
    if (at > until_us) {
        return false;
    }
    net->now_us = at > net->now_us ? at : net->now_us;
    if (next == NET_HOSTS) {
        arrive(net);
    } else {
        member_tick(net->host[next].table, net->now_us);
        pump(net, next);
    }
    return true;
}

void
net_run(struct net *net, uint64_t span_us)
{
    uint64_t until_us = net->now_us + span_us;

    while (step(net, until_us)) {
    }
    net->now_us = until_us;
}

/* Whether a host sees all living hosts, with their ids, and nobody else. */
static bool
sees_all(const struct net *net, uint32_t host)
{
    const struct member_table *table = net->host[host].table;
    struct member_info info;
    uint32_t living = 0;

    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        if (net->host[i].table == NULL) {
            continue;
        }
        living++;
        if (!net_sees(net, host, net->host[i].name, &info) ||
            !member_id_equal(info.update.id, net->host[i].id) ||
            info.update.state != MEMBER_ALIVE) {
            return false;
        }
    }
    return member_count_alive(table) == living;
}

static bool
all_see_all(const struct net *net)
{
    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        if (net->host[i].table != NULL && !sees_all(net, i)) {
            return false;
        }
    }
    return true;
}

uint64_t
net_converge(struct net *net, uint64_t span_us)
{
    uint64_t begin_us = net->now_us;

    while (net->now_us - begin_us <= span_us) {
        if (all_see_all(net)) {
            return net->now_us - begin_us;
        }
        net_run(net, 10 * NET_MS);
    }
    return UINT64_MAX;
}

static bool
counts(const struct net *net, uint32_t host, struct member_id id)
{
    struct member_info info;

    for (uint32_t at = 0; member_get(net->host[host].table, at, &info); at++) {
        if (member_id_equal(info.update.id, id) &&
            info.update.state <= MEMBER_SUSPECT) {
            return true;
        }
    }
    return false;
}

uint64_t
net_excluded(struct net *net, struct member_id id, uint64_t span_us)
{
    uint64_t begin_us = net->now_us;

    while (net->now_us - begin_us <= span_us) {
        bool counted = false;
        for (uint32_t i = 0; i < NET_HOSTS && !counted; i++) {
            counted = net->host[i].table != NULL && counts(net, i, id);
        }
        if (!counted) {
            return net->now_us - begin_us;
        }
        net_run(net, 10 * NET_MS);
    }
    return UINT64_MAX;
}

bool
net_sees(const struct net *net, uint32_t host, const char *name,
         struct member_info *info)
{
    for (uint32_t at = 0; member_get(net->host[host].table, at, info); at++) {
        if (strcmp(info->update.name, name) == 0) {
            return true;
        }
    }
    return false;
}

int
net_state(const struct net *net, uint32_t host, const char *name)
{
    struct member_info info;

    return net_sees(net, host, name, &info) ? (int)info.update.state : -1;
}

uint32_t
net_count(const struct net *net, uint32_t host, enum member_event event,
          const char *name)
{
    uint64_t kept = net->log_count < NET_EVENTS ? net->log_count : NET_EVENTS;
    uint32_t count = 0;

    for (uint64_t i = 0; i < kept; i++) {
        const struct net_event *e = &net->log[i];
        count += e->event == event && (host == NET_HOSTS || e->host == host) &&
                 (name == NULL || strcmp(e->about.name, name) == 0);
    }
    return count;
}
