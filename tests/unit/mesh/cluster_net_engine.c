/* The engines: what they store, and who reads them. */
#include <stdlib.h>
#include <string.h>

#include "cluster_net_internal.h"

#define UNABLE_US (300 * MS)

static uint64_t
key_of(uint32_t worker, uint32_t rank, uint32_t key)
{
    return rng_mix((uint64_t)(worker * NET_RANKS + rank) << 32 | (key + 1));
}

static uint32_t
key_index(uint32_t worker, uint32_t rank, uint64_t key)
{
    for (uint32_t i = 0; i < NET_KEYS; i++) {
        if (key_of(worker, rank, i) == key) {
            return i;
        }
    }
    abort();
}

uint64_t
net_worker_id(uint32_t worker)
{
    return rng_mix(worker + 77);
}

static struct event_stream
stream_of(uint32_t worker, uint32_t rank)
{
    return (struct event_stream){.worker = net_worker_id(worker), .rank = rank};
}

uint32_t
net_worker_of(uint64_t id)
{
    for (uint32_t i = 0; i < NET_WORKERS; i++) {
        if (net_worker_id(i) == id) {
            return i;
        }
    }
    abort();
}

/* Replicas */

static void
tell_digest(struct net *net, uint32_t host, uint32_t worker, uint32_t rank)
{
    const struct net_replica *replica = &net->host[host].replica[worker][rank];
    uint64_t count = 0;
    uint64_t xor_keys = 0;

    for (uint32_t i = 0; i < NET_KEYS; i++) {
        if (replica->held[i]) {
            count++;
            xor_keys ^= rng_mix(key_of(worker, rank, i));
        }
    }
    gossip_digest(cluster_gossip(net->host[host].cluster),
                  stream_of(worker, rank), count, xor_keys);
}

static void
take_apply(struct net *net, uint32_t host, const struct gossip_out *out)
{
    uint32_t worker = net_worker_of(out->stream.worker);
    uint32_t rank = out->stream.rank;
    struct net_replica *replica = &net->host[host].replica[worker][rank];
    const struct event_record *record = out->record;

    CHECK(record->epoch == replica->name);
    for (uint32_t at = 0; at < record->words_count;) {
        uint64_t op = record->words[at++];
        for (uint32_t i = 0; i < event_op_count(op); i++) {
            replica->held[key_index(worker, rank, record->words[at++])] =
                event_op_kind(op) == EVENT_STORE;
        }
    }
    replica->applied++;
    const struct net_engine *engine = &net->engine[worker][rank];
    uint64_t seq = record->seq >> 8;
    if (record->seq != 0 && seq < engine->count &&
        out->epoch.id == engine->process) {
        uint64_t lag_us = net->now_us - engine->batches[seq].at_us;
        net->lag_max_us = lag_us > net->lag_max_us ? lag_us : net->lag_max_us;
    }
    tell_digest(net, host, worker, rank);
}

static void
export_page(struct net *net, uint32_t host, const struct gossip_out *out)
{
    uint32_t worker = net_worker_of(out->stream.worker);
    uint32_t rank = out->stream.rank;
    const struct net_replica *replica = &net->host[host].replica[worker][rank];
    uint64_t storage[64];
    struct event_words words = {.words = storage, .max = 64};
    uint64_t at = out->cursor;

    for (; at < NET_KEYS && at < out->cursor + 20; at++) {
        if (replica->held[at]) {
            *event_words_add(&words, EVENT_STORE, TIER_DEVICE, 1) =
                key_of(worker, rank, (uint32_t)at);
        }
    }
    gossip_exported(cluster_gossip(net->host[host].cluster), out->token,
                    storage, words.count,
                    at == NET_KEYS ? GOSSIP_CURSOR_END : at, net->now_us);
}

void
net_take_gossip(struct net *net, uint32_t host, const struct gossip_out *out)
{
    struct net_host *h = &net->host[host];
    uint32_t worker = net_worker_of(out->stream.worker);
    uint32_t rank = out->stream.rank;
    struct net_replica *replica = &h->replica[worker][rank];

    switch (out->kind) {
    case GOSSIP_SEND:
    case GOSSIP_BELIEF:
        abort();
    case GOSSIP_RESET:
        memset(replica->held, 0, sizeof replica->held);
        replica->name = out->name;
        replica->resets++;
        tell_digest(net, host, worker, rank);
        break;
    case GOSSIP_APPLY:
        take_apply(net, host, out);
        break;
    case GOSSIP_EXPORT:
        export_page(net, host, out);
        break;
    case GOSSIP_STATE:
        replica->complete = out->complete;
        replica->stale = out->stale;
        break;
    case GOSSIP_REREAD:
        h->reader[worker][rank].ask = out->ask;
        h->reader[worker][rank].begin_us = net->now_us + 5 * MS;
        break;
    }
}

/* Readers */

void
net_take_read(struct net *net, uint32_t host, uint32_t worker, bool on)
{
    struct net_host *h = &net->host[host];

    CHECK(h->reads[worker] != on);
    h->reads[worker] = on;
    for (uint32_t rank = 0; rank < net->ranks; rank++) {
        uint64_t ask = h->reader[worker][rank].ask;
        h->reader[worker][rank] = (struct net_reader){.ask = ask};
        if (!on) {
            gossip_local_end(cluster_gossip(h->cluster),
                             stream_of(worker, rank), net->now_us);
            continue;
        }
        uint64_t wait_ms = net->connect_ms > 0 ? net->connect_ms
                                               : 5 + rng_below(&net->rng, 25);
        h->reader[worker][rank].begin_us = net->now_us + wait_ms * MS;
    }
}

static void
set_live(struct net *net, uint32_t host, uint32_t worker, uint32_t rank,
         bool live)
{
    struct net_host *h = &net->host[host];

    if (h->reader[worker][rank].live != live) {
        h->reader[worker][rank].live = live;
        gossip_local_live(cluster_gossip(h->cluster), stream_of(worker, rank),
                          live, net->now_us);
        net_pull(net, host);
    }
}

static void
begin_reading(struct net *net, uint32_t host, uint32_t worker, uint32_t rank)
{
    struct net_reader *reader = &net->host[host].reader[worker][rank];

    reader->begun = true;
    reader->begin_us = 0;
    reader->next = 0;
    reader->process = net->engine[worker][rank].process;
    gossip_local_begin(cluster_gossip(net->host[host].cluster),
                       stream_of(worker, rank), reader->process, true,
                       reader->ask, net->now_us);
    net_pull(net, host);
}

static void
read_one(struct net *net, uint32_t host, uint32_t worker, uint32_t rank)
{
    struct net_reader *reader = &net->host[host].reader[worker][rank];
    uint32_t seq = reader->next++;
    const struct net_batch *batch = &net->engine[worker][rank].batches[seq];
    uint64_t room[16] = {0};
    struct event_record *record = (struct event_record *)(void *)room;

    *record =
        (struct event_record){.seq = seq, .block_tokens = 16, .words_count = 2};
    record->words[0] =
        event_op(batch->stores ? EVENT_STORE : EVENT_REMOVE, TIER_DEVICE, 1);
    record->words[1] = key_of(worker, rank, batch->key);
    gossip_local_record(
        cluster_gossip(net->host[host].cluster), stream_of(worker, rank),
        record, rng_mix(reader->process ^ rng_mix(seq)), true, net->now_us);
    net_pull(net, host);
}

void
net_step_reader(struct net *net, uint32_t host, uint32_t worker, uint32_t rank)
{
    struct net_host *h = &net->host[host];
    struct net_reader *reader = &h->reader[worker][rank];
    const struct net_engine *engine = &net->engine[worker][rank];

    if (!h->reads[worker] || !h->knows[worker]) {
        return;
    }
    if (h->engine_severed[worker]) {
        reader->begun = false;
        reader->begin_us = net->now_us + 5 * MS;
        set_live(net, host, worker, rank, false);
        return;
    }
    if (reader->begun && reader->process != engine->process) {
        reader->begun = false;
        reader->begin_us = net->now_us + rng_below(&net->rng, 100) * MS;
        set_live(net, host, worker, rank, false);
    }
    if (reader->begin_us != 0 && net->now_us >= reader->begin_us) {
        begin_reading(net, host, worker, rank);
    }
    for (uint32_t i = 0; reader->begun && h->reads[worker] && i < 200 &&
                         reader->next < engine->count;
         i++) {
        read_one(net, host, worker, rank);
    }
    set_live(net, host, worker, rank,
             reader->begun && reader->next == engine->count);
}

static void
say_unable(struct net *net, uint32_t host, uint32_t worker, bool unable)
{
    net->host[host].says_unable[worker] = unable;
    cluster_unable(net->host[host].cluster, net_worker_id(worker), unable,
                   net->now_us);
    net_pull(net, host);
}

/* A node that is to read and cannot says so; one that can, too. */
void
net_step_unable(struct net *net, uint32_t host, uint32_t worker)
{
    struct net_host *h = &net->host[host];

    if (!h->engine_severed[worker]) {
        h->unable_us[worker] = 0;
        if (h->says_unable[worker]) {
            say_unable(net, host, worker, false);
        }
    } else if (h->reads[worker] && h->unable_us[worker] == 0) {
        h->unable_us[worker] = net->now_us + UNABLE_US;
    } else if (h->unable_us[worker] != 0 && !h->says_unable[worker] &&
               net->now_us >= h->unable_us[worker]) {
        say_unable(net, host, worker, true);
    }
}

/* Engines */

void
net_publish(struct net *net, uint32_t worker, uint32_t rank)
{
    struct net_engine *engine = &net->engine[worker][rank];

    if (engine->count == NET_BATCHES) {
        return;
    }
    struct net_batch *batch = &engine->batches[engine->count++];
    *batch = (struct net_batch){
        .at_us = net->now_us,
        .key = (uint16_t)rng_below(&net->rng, NET_KEYS),
        .stores = rng_below(&net->rng, 5) < 3,
    };
    engine->held[batch->key] = batch->stores;
}

void
net_engine_restart(struct net *net, uint32_t worker)
{
    for (uint32_t rank = 0; rank < NET_RANKS; rank++) {
        struct net_engine *engine = &net->engine[worker][rank];

        engine->process = rng_next(&net->rng) | 1;
        engine->count = 0;
        memset(engine->held, 0, sizeof engine->held);
    }
}
