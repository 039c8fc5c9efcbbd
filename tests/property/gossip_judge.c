/* What must hold in the world: after each step, and once all is quiet. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gossip_world.h"

void
world_fault(struct world *world, const char *what, uint32_t node,
            uint32_t stream)
{
    printf("property_gossip: %s, seed %llu, at %llu ms, node %u, stream %u\n",
           what, (unsigned long long)world->seed,
           (unsigned long long)(world->now_us / WORLD_MS), node, stream);
    world_print(world);
    exit(1);
}

/* The process, living or dead, whose reading an epoch is; NULL: not known. */
static struct world_process *
process_of(struct world *world, uint32_t stream, uint64_t id)
{
    struct world_engine *engine = &world->engines[stream];

    for (uint32_t i = 0; i < engine->aliases_count; i++) {
        if (engine->aliases[i].id == id) {
            return &engine->process[engine->aliases[i].process];
        }
    }
    return NULL;
}

static bool
is_subset(const struct world_set *a, const struct world_set *b)
{
    for (uint32_t i = 0; i < WORLD_KEYS; i++) {
        if ((a->tiers[i] & ~b->tiers[i]) != 0) {
            return false;
        }
    }
    return true;
}

void
world_check(struct world *world, const char *when)
{
    const char *reason = when;

    for (uint32_t n = 0; n < world->nodes_count; n++) {
        struct world_node *node = &world->nodes[n];
        struct gossip_status status;
        if (!node->up) {
            continue;
        }
        if (!gossip_check(node->g, &reason)) {
            world_fault(world, reason, n, 0);
        }
        for (uint32_t i = 0; gossip_status(node->g, i, &status); i++) {
            uint32_t s = world_stream_of(world, status.stream);
            struct world_process *process =
                process_of(world, s, status.epoch.id);
            if (status.names_known && !status.torn && !world->rotten &&
                status.names_pos == status.pos &&
                status.names_digest !=
                    world_names_digest(s, &node->replica[s].set)) {
                world_fault(world, "names are not those of the blocks", n, s);
            }
            if (status.stale || process == NULL || world->rotten ||
                !status.complete || (status.pos & 255) != 255) {
                continue;
            }
            const struct world_set *truth =
                &process->batches[status.pos >> 8].after;
            if (memcmp(truth, &node->replica[s].set, sizeof *truth) != 0) {
                world_fault(world, "a complete set is not the engine's", n, s);
            }
        }
    }
}

bool
world_agrees(struct world *world, const char **why)
{
    for (uint32_t n = 0; n < world->nodes_count; n++) {
        struct world_node *node = &world->nodes[n];
        struct gossip_status status;
        struct gossip_status other;
        for (uint32_t i = 0; gossip_status(node->g, i, &status); i++) {
            uint32_t s = world_stream_of(world, status.stream);
            struct world_process *process = world_living(world, s);
            const struct world_set *set = &node->replica[s].set;
            static const struct world_set nothing;
            const struct world_set *truth =
                process->next_seq == 0
                    ? &nothing
                    : &process->batches[process->next_seq - 1].after;
            bool found = gossip_status(world->nodes[0].g, i, &other);
            *why =
                !found                                    ? "streams"
                : status.epoch.id != other.epoch.id       ? "epochs differ"
                : status.pos != other.pos                 ? "positions differ"
                : status.stale                            ? "stale"
                : node->replica[s].stale                  ? "told stale"
                : status.complete != other.complete       ? "complete differs"
                : status.names_known != other.names_known ? "names not known"
                : status.names_known && status.names_pos != status.pos
                    ? "names of another position"
                : status.names_digest != other.names_digest ? "names differ"
                : status.count != other.count               ? "digests differ"
                : status.xor_keys != other.xor_keys         ? "digests differ"
                : (process->next_seq != 0 &&
                   status.pos >> 8 != process->next_seq - 1)
                    ? "not the engine's last"
                : memcmp(set, &world->nodes[0].replica[s].set, sizeof *set) != 0
                    ? "sets differ"
                : status.complete && memcmp(set, truth, sizeof *set) != 0
                    ? "complete and not the engine's"
                : !world->gapped && !is_subset(set, truth)
                    ? "more than the engine's"
                : !world->gapped && !world->weather.rolls && !status.complete
                    ? "not complete"
                    : NULL;
            if (*why != NULL) {
                return false;
            }
        }
    }
    return true;
}

void
world_print(struct world *world)
{
    for (uint32_t s = 0; s < world->streams_count; s++) {
        const struct world_process *process = world_living(world, s);
        printf("stream %u: process %016llx next %llu low %llu\n", s,
               (unsigned long long)process->id,
               (unsigned long long)process->next_seq,
               (unsigned long long)process->low);
        for (uint32_t n = 0; n < world->nodes_count; n++) {
            const struct world_node *node = &world->nodes[n];
            const struct world_reader *reader = &node->reader[s];
            struct gossip_status status;
            if (!node->up || !gossip_status(node->g, s, &status)) {
                continue;
            }
            printf("  node %u %016llx no %u seq %llu.%llu of %llu%s%s%s%s%s "
                   "count %llu xor %016llx, names %d %llu;%s%s next %llu%s\n",
                   n, (unsigned long long)status.epoch.id, status.epoch.no,
                   (unsigned long long)(status.pos >> 8),
                   (unsigned long long)(status.pos & 255),
                   (unsigned long long)(status.pos_known >> 8),
                   status.complete ? " complete" : "",
                   status.stale ? " stale" : "",
                   status.contested ? " contested" : "",
                   status.reads ? " reads" : "",
                   status.follower ? " follows" : "",
                   (unsigned long long)status.count,
                   (unsigned long long)status.xor_keys, status.names_known,
                   (unsigned long long)(status.names_pos >> 8),
                   reader->on ? " on" : "", reader->live ? " live" : "",
                   (unsigned long long)reader->next_seq,
                   reader->partial ? " partial" : "");
        }
    }
    printf("weather: loss %u jitter %u rolls %d disks %d gaps %u rots %u\n",
           world->weather.loss, world->weather.jitter_us, world->weather.rolls,
           world->weather.disks, world->weather.gaps, world->weather.rots);
}
