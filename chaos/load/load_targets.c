/* The order in which a request tries the addresses of a name. */
#include "chaos/load/load_targets.h"

#include <netinet/in.h>
#include <string.h>

#include "index/base/rng.h"

static struct load_target
target_of(const struct discover_ip *ip, uint16_t port)
{
    struct load_target target = {.key = rng_mix(port)};

    CHECK(ip->size == 4 || ip->size == 16);
    if (ip->size == 4) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)&target.address;
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, ip->bytes, 4);
    } else {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&target.address;
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        memcpy(&v6->sin6_addr, ip->bytes, 16);
    }
    for (uint32_t i = 0; i < ip->size; i++) {
        target.key = rng_mix(target.key ^ ip->bytes[i]);
    }
    return target;
}

static const struct load_target *
find(const struct load_targets *targets, uint64_t key)
{
    for (uint32_t i = 0; i < targets->count; i++) {
        if (targets->target[i].key == key) {
            return &targets->target[i];
        }
    }
    return NULL;
}

void
load_targets_set(struct load_targets *targets, const struct discover_ip *ips,
                 size_t count, uint16_t port)
{
    struct load_targets now = {.count = 0};

    for (size_t i = 0; i < count && now.count < LOAD_TARGETS_MAX; i++) {
        struct load_target target = target_of(&ips[i], port);
        const struct load_target *before = find(targets, target.key);
        if (find(&now, target.key) == NULL) {
            target.avoid_us = before != NULL ? before->avoid_us : 0;
            now.target[now.count++] = target;
        }
    }
    *targets = now;
}

static uint32_t
count_tried(uint64_t key, const uint64_t *tried, uint32_t tried_count)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < tried_count; i++) {
        count += tried[i] == key;
    }
    return count;
}

const struct load_target *
load_targets_pick(const struct load_targets *targets, uint64_t request,
                  const uint64_t *tried, uint32_t tried_count, uint64_t now_us)
{
    const struct load_target *best = NULL;
    uint64_t best_rank[3] = {0};

    CHECK(targets->count <= LOAD_TARGETS_MAX);
    for (uint32_t i = 0; i < targets->count; i++) {
        const struct load_target *target = &targets->target[i];
        uint64_t rank[3] = {count_tried(target->key, tried, tried_count),
                            now_us < target->avoid_us,
                            rng_mix(target->key ^ request)};
        uint32_t at = 0;
        while (best != NULL && at < 2 && rank[at] == best_rank[at]) {
            at++;
        }
        if (best == NULL || rank[at] < best_rank[at]) {
            best = target;
            memcpy(best_rank, rank, sizeof(rank));
        }
    }
    return best;
}

void
load_targets_failed(struct load_targets *targets, uint64_t key, uint64_t now_us)
{
    for (uint32_t i = 0; i < targets->count; i++) {
        if (targets->target[i].key == key) {
            targets->target[i].avoid_us = now_us + LOAD_TARGETS_AVOID_US;
        }
    }
}
