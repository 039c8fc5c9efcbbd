/* The network and the hosts: sending, losing, dying, restarting. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_net_internal.h"

#define SILENT_US (10000 * MS)

static bool
chance(struct net *net, uint32_t permille)
{
    return permille > 0 && rng_below(&net->rng, 1000) < permille;
}

/* Frames */

static uint32_t
host_at(const char *address)
{
    unsigned host = NET_HOSTS;

    return sscanf(address, "10.0.0.%u:7946", &host) == 1 && host < NET_HOSTS
               ? host
               : NET_HOSTS;
}

static void
fly(struct net *net, uint32_t from, uint32_t to, const struct cluster_out *out)
{
    struct net_frame frame = {
        .at_us = net->now_us + net->delay_us +
                 rng_below(&net->rng, net->jitter_us + 1),
        .from = from,
        .to = to,
        .from_session = net->host[from].session,
        .to_session = net->pair[from][to].session,
        .len = out->tail.len + 1,
        .bytes = malloc(out->tail.len + 1),
    };

    CHECK(frame.bytes != NULL);
    frame.bytes[0] = out->head;
    memcpy(frame.bytes + 1, out->tail.ptr, out->tail.len);
    if (net->flight_count == net->flight_size) {
        net->flight_size = net->flight_size * 2 + 256;
        net->flight =
            realloc(net->flight, net->flight_size * sizeof *net->flight);
        CHECK(net->flight != NULL);
    }
    net->flight[net->flight_count++] = frame;
}

static void
send_out(struct net *net, uint32_t from, const struct cluster_out *out)
{
    uint32_t to = host_at(out->address);

    net->frames++;
    net->bytes += out->tail.len + 1;
    if (to == NET_HOSTS || to == from) {
        return;
    }
    net->pair[from][to].dialled = true;
    if (out->channel == CLUSTER_BULK && net->pair[from][to].session == 0) {
        net->bulk_refused++;
        return;
    }
    if (chance(net, net->loss_permille)) {
        return;
    }
    fly(net, from, to, out);
    if (chance(net, net->double_permille)) {
        fly(net, from, to, out);
    }
}

/* Outputs */

static void
take_worker(struct net *net, uint32_t host, const struct roster_entry *entry)
{
    struct net_host *h = &net->host[host];
    unsigned worker = NET_WORKERS;

    CHECK(sscanf(entry->id, "w%u", &worker) == 1 && worker < NET_WORKERS);
    h->draining[worker] = entry->draining;
    h->told[worker] = true;
    h->removed[worker] = entry->removed;
}

static void
change_worker(struct net *net, uint32_t host, uint32_t worker)
{
    struct net_host *h = &net->host[host];

    if (h->removed[worker] && h->knows[worker]) {
        cluster_worker_remove(h->cluster, net_worker_id(worker), net->now_us);
        h->reads[worker] = false;
        h->says_unable[worker] = false;
        h->unable_us[worker] = 0;
        memset(h->reader[worker], 0, sizeof h->reader[worker]);
        memset(h->replica[worker], 0, sizeof h->replica[worker]);
    } else if (!h->removed[worker]) {
        struct island_path island =
            island_path_of(slice_of(net->worker_island[worker]));

        CHECK(cluster_worker_add(h->cluster, net_worker_id(worker), net->ranks,
                                 &island, net->now_us) == 0);
    }
    h->knows[worker] = !h->removed[worker];
}

/* True: one was, and there may be outputs of it. */
static bool
change_workers(struct net *net, uint32_t host)
{
    for (uint32_t worker = 0; worker < NET_WORKERS; worker++) {
        if (net->host[host].told[worker]) {
            net->host[host].told[worker] = false;
            change_worker(net, host, worker);
            return true;
        }
    }
    return false;
}

static void
take_resolve(struct net *net, uint32_t host, const struct discover_out *out)
{
    struct net_host *h = &net->host[host];

    for (uint32_t i = 0; i < NET_LOOKUPS; i++) {
        if (h->lookups[i] == 0) {
            h->lookups[i] = out->ticket;
            h->lookup_us[i] = net->now_us + 5 * MS;
            return;
        }
    }
}

static void
take_out(struct net *net, uint32_t host, const struct cluster_out *out)
{
    struct net_host *h = &net->host[host];
    uint32_t to = out->address != NULL ? host_at(out->address) : NET_HOSTS;

    switch (out->kind) {
    case CLUSTER_SEND:
        send_out(net, host, out);
        break;
    case CLUSTER_DOUBT:
        h->doubts++;
        if (to < NET_HOSTS) {
            net->pair[host][to].doubted = true;
        }
        break;
    case CLUSTER_DROP:
        h->drops++;
        if (to < NET_HOSTS) {
            net->pair[host][to] = (struct net_pair){0};
        }
        break;
    case CLUSTER_RESOLVE:
        take_resolve(net, host, &out->discover);
        break;
    case CLUSTER_NEWS:
        break;
    case CLUSTER_MEMBER:
        h->events[out->event]++;
        break;
    case CLUSTER_READ:
        net_take_read(net, host, net_worker_of(out->worker), out->on);
        break;
    case CLUSTER_GOSSIP:
        net_take_gossip(net, host, &out->gossip);
        break;
    case CLUSTER_WORKER:
        take_worker(net, host, &out->entry);
        break;
    case CLUSTER_READY:
        h->ready = out->ready;
        h->ready_us = net->now_us;
        break;
    }
}

void
net_pull(struct net *net, uint32_t host)
{
    struct cluster_out out;
    const char *reason = "";

    do {
        while (cluster_next_out(net->host[host].cluster, &out)) {
            take_out(net, host, &out);
        }
    } while (change_workers(net, host));
    if (!cluster_check(net->host[host].cluster, &reason)) {
        net->failed(reason);
    }
}

/* Links */

static uint64_t
who_answers(const struct net *net, uint32_t a, uint32_t b)
{
    bool dialled = net->pair[a][b].dialled || net->pair[b][a].dialled;

    return dialled && runs(net, b) && !net->severed[a][b] && !net->severed[b][a]
               ? net->host[b].session
               : 0;
}

static void
step_up(struct net *net, uint32_t a, uint32_t b, uint64_t there)
{
    struct net_pair *pair = &net->pair[a][b];

    if (there == 0) {
        pair->retry_us = 0;
    } else if (pair->retry_us == 0) {
        bool first = pair->broken_us == 0;
        pair->retry_us =
            net->now_us + (2 + rng_below(&net->rng, first ? 5 : 1000)) * MS;
    } else if (net->now_us >= pair->retry_us) {
        *pair = (struct net_pair){.dialled = true, .session = there};
        cluster_link_up(net->host[a].cluster, net->host[b].address, there,
                        net->now_us);
        net_pull(net, a);
    }
}

static void
step_link(struct net *net, uint32_t a, uint32_t b)
{
    struct net_pair *pair = &net->pair[a][b];
    uint64_t there = who_answers(net, a, b);

    if (pair->session == 0) {
        step_up(net, a, b, there);
        return;
    }
    if (there == pair->session) {
        pair->broken_us = 0;
        pair->doubted = false;
        return;
    }
    pair->broken_us = pair->broken_us == 0 ? net->now_us : pair->broken_us;
    bool reset = !net->severed[a][b] && !net->severed[b][a] &&
                 (!lives(net, b) || net->host[b].session != pair->session);
    uint64_t wait_us = pair->doubted ? 0 : reset ? 3 * MS : SILENT_US;
    if (net->now_us - pair->broken_us >= wait_us) {
        pair->session = 0;
        pair->doubted = false;
        pair->retry_us = 0;
        cluster_link_down(net->host[a].cluster, net->host[b].address,
                          net->now_us);
        net_pull(net, a);
    }
}

/* What waits for a paused process arrives when it runs again. */
static bool
arrives(struct net *net, struct net_frame *frame)
{
    struct net_host *h = &net->host[frame->to];

    if (frame->at_us > net->now_us) {
        return false;
    }
    if (lives(net, frame->to) && !runs(net, frame->to)) {
        return false;
    }
    if (lives(net, frame->to) && !net->severed[frame->from][frame->to] &&
        (frame->to_session == 0 || frame->to_session == h->session)) {
        if (net->tap != NULL) {
            net->tap(frame->to, frame);
        }
        struct slice body = {.ptr = (const char *)frame->bytes,
                             .len = frame->len};
        int rc =
            cluster_recv(h->cluster, frame->from_session, body, net->now_us);
        CHECK(rc != CLUSTER_E_BAD && rc != CLUSTER_E_UNKNOWN);
        net_pull(net, frame->to);
    }
    return true;
}

static void
deliver(struct net *net)
{
    uint32_t count = net->flight_count;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct net_frame frame = net->flight[i];
        if (arrives(net, &frame)) {
            free(frame.bytes);
        } else {
            net->flight[kept++] = frame;
        }
    }
    uint32_t added = net->flight_count - count; /* by what arrived */
    if (added > 0) {
        memmove(net->flight + kept, net->flight + count,
                added * sizeof *net->flight);
    }
    net->flight_count = kept + added;
}

/* Hosts */

static void
answer_lookups(struct net *net, uint32_t host)
{
    struct net_host *h = &net->host[host];
    struct discover_ip ips[NET_HOSTS];
    uint32_t count = 0;

    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        if ((net->dns >> i & 1) != 0) {
            ips[count++] = (struct discover_ip){
                .size = 4, .bytes = {10, 0, 0, (uint8_t)i}};
        }
    }
    for (uint32_t i = 0; i < NET_LOOKUPS; i++) {
        if (h->lookups[i] == 0 || net->now_us < h->lookup_us[i]) {
            continue;
        }
        struct discover_answer answer = {
            .ticket = h->lookups[i],
            .outcome = count > 0 ? DISCOVER_FOUND : DISCOVER_ABSENT,
            .ips = ips,
            .ips_count = count,
        };
        h->lookups[i] = 0;
        cluster_answered(h->cluster, &answer, net->now_us);
        net_pull(net, host);
    }
}

static void
step_host(struct net *net, uint32_t host)
{
    struct net_host *h = &net->host[host];

    for (uint32_t b = 0; b < NET_HOSTS; b++) {
        if (b != host) {
            step_link(net, host, b);
        }
    }
    answer_lookups(net, host);
    for (uint32_t i = 0; cluster_deadline(h->cluster) <= net->now_us; i++) {
        CHECK(i < 16); /* a death may make another one due, and so on */
        cluster_tick(h->cluster, net->now_us);
        net_pull(net, host);
    }
    for (uint32_t w = 0; w < net->workers; w++) {
        net_step_unable(net, host, w);
        for (uint32_t rank = 0; rank < net->ranks; rank++) {
            net_step_reader(net, host, w, rank);
        }
    }
}

void
net_step(struct net *net)
{
    net->now_us += MS;
    for (uint32_t w = 0; w < net->workers && net->batch_ms > 0; w++) {
        for (uint32_t rank = 0; rank < net->ranks; rank++) {
            if (rng_below(&net->rng, net->batch_ms) == 0) {
                net_publish(net, w, rank);
            }
        }
    }
    deliver(net);
    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        if (runs(net, i)) {
            step_host(net, i);
        }
    }
}

void
net_run(struct net *net, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        net_step(net);
    }
}

uint64_t
net_until(struct net *net, net_condition *holds, uint64_t limit_ms)
{
    for (uint64_t ms = 0; ms <= limit_ms; ms++) {
        if (holds(net)) {
            return ms;
        }
        net_step(net);
    }
    return NET_NEVER;
}

/* Making and breaking */

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
    net->now_us = 1000000 * MS;
    net->config = cluster_config_default();
    net->delay_us = 500;
    net->batch_ms = 5;
    net->workers = 1;
    net->ranks = 1;
    net->dns = (1U << NET_HOSTS) - 1;
    net->joins = true;
    net->failed = stop;
    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        (void)snprintf(net->host[i].address, MEMBER_ADDRESS_MAX,
                       "10.0.0.%u:7946", i);
        (void)snprintf(net->host[i].name, MEMBER_NAME_MAX, "node-%u", i);
    }
    for (uint32_t w = 0; w < NET_WORKERS; w++) {
        for (uint32_t rank = 0; rank < NET_RANKS; rank++) {
            net->engine[w][rank].batches =
                calloc(NET_BATCHES, sizeof(struct net_batch));
        }
        net_engine_restart(net, w);
    }
}

void
net_fini(struct net *net)
{
    for (uint32_t i = 0; i < NET_HOSTS; i++) {
        net_crash(net, i);
    }
    for (uint32_t i = 0; i < net->flight_count; i++) {
        free(net->flight[i].bytes);
    }
    free(net->flight);
    for (uint32_t w = 0; w < NET_WORKERS; w++) {
        for (uint32_t rank = 0; rank < NET_RANKS; rank++) {
            free(net->engine[w][rank].batches);
        }
    }
}

static void
reset_host(struct net_host *h)
{
    struct net_host kept = {.cluster = NULL};

    memcpy(kept.name, h->name, sizeof kept.name);
    memcpy(kept.address, h->address, sizeof kept.address);
    memcpy(kept.engine_severed, h->engine_severed, sizeof kept.engine_severed);
    *h = kept;
}

void
net_start(struct net *net, uint32_t host)
{
    struct net_host *h = &net->host[host];
    struct member_self self = {
        .id = {{rng_next(&net->rng) | 1, rng_next(&net->rng)}}};
    struct discover_join join;

    CHECK(h->cluster == NULL);
    reset_host(h);
    memcpy(self.name, h->name, sizeof self.name);
    memcpy(self.address, h->address, sizeof self.address);
    if (net->host_island[host] != NULL) {
        (void)snprintf(self.island, sizeof self.island, "%s",
                       net->host_island[host]);
    }
    h->session = self.id.word[0];
    h->born_us = net->now_us;
    CHECK(cluster_new(&h->cluster, &net->config, &self, net->now_us,
                      rng_next(&net->rng)) == 0);
    if (net->joins) {
        CHECK(discover_parse(SLICE("dns:mesh.example:7946"), &join) == NULL);
        CHECK(cluster_join(h->cluster, &join, net->now_us) == 0);
    }
    for (uint32_t w = 0; w < NET_WORKERS; w++) {
        char id[16];
        (void)snprintf(id, sizeof id, "w%u", w);
        if (net->configured[host][w]) {
            CHECK(roster_configure(cluster_roster(h->cluster), id, SLICE("x"),
                                   net->now_us) == 0);
        }
    }
    net_pull(net, host);
}

void
net_mesh(struct net *net, uint32_t count, uint32_t workers)
{
    net->workers = workers;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t w = 0; w < workers; w++) {
            net->configured[i][w] = true;
        }
        net_start(net, i);
    }
}

void
net_crash(struct net *net, uint32_t host)
{
    cluster_free(net->host[host].cluster);
    reset_host(&net->host[host]);
    for (uint32_t b = 0; b < NET_HOSTS; b++) {
        net->pair[host][b] = (struct net_pair){0};
    }
}

void
net_leave(struct net *net, uint32_t host)
{
    cluster_leave(net->host[host].cluster, net->now_us);
    net_pull(net, host);
    net_crash(net, host);
}

void
net_pause(struct net *net, uint32_t host, uint64_t ms)
{
    net->host[host].paused_until_us = net->now_us + ms * MS;
}

void
net_split(struct net *net, uint32_t one, uint32_t other)
{
    for (uint32_t a = 0; a < NET_HOSTS; a++) {
        for (uint32_t b = 0; b < NET_HOSTS; b++) {
            if ((one >> a & 1) != 0 && (other >> b & 1) != 0) {
                net->severed[a][b] = true;
                net->severed[b][a] = true;
            }
        }
    }
}

void
net_heal(struct net *net)
{
    memset(net->severed, 0, sizeof net->severed);
}
