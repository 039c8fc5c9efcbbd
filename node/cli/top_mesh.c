/* The nodes of a mesh, and what they do together. */
#include <stdio.h>
#include <string.h>

#include "node/cli/status_internal.h"
#include "node/cli/top_internal.h"

#define TREE_BYTES_MAX ((size_t)16 << 20)

static const enum top_how number_how[] = {
#define HOW(NAME, series, label, value, how) TOP_##how,
    TOP_NUMBERS(HOW)
#undef HOW
};

static const enum top_how worker_how[] = {
#define HOW(NAME, series, how) TOP_##how,
    TOP_WORKER_NUMBERS(HOW)
#undef HOW
};

static void
join(struct top_figure *all, const struct top_figure *one, enum top_how how)
{
    if (!one->known) {
        return;
    }
    if (!all->known || how == TOP_SUM) {
        all->value += one->value;
    } else if ((how == TOP_MOST) == (one->value > all->value)) {
        all->value = one->value;
    }
    all->known = true;
}

static void
join_workers(struct top_sample *all, const struct top_sample *node)
{
    for (uint32_t i = 0; i < node->workers_count; i++) {
        const struct top_worker *from = &node->workers[i];
        struct top_worker *to = top_worker_of(all, from->id);
        for (uint32_t n = 0; to != NULL && n < TOP_WORKER_NUMBERS_COUNT; n++) {
            if (worker_how[n] != TOP_NOT) {
                join(&to->number[n], &from->number[n], worker_how[n]);
            }
        }
        all->workers_left += to == NULL;
    }
}

void
top_join(struct top_sample *all, const struct top_sample *node)
{
    if (all->at_us == 0) {
        memcpy(all->version, node->version, sizeof all->version);
        memcpy(all->members, node->members, sizeof all->members);
    }
    all->at_us = node->at_us;
    for (uint32_t i = 0; i < TOP_NUMBERS_COUNT; i++) {
        join(&all->number[i], &node->number[i], number_how[i]);
    }
    for (uint32_t i = 0; i < TOP_TIMES_COUNT; i++) {
        for (uint32_t at = 0; at < TOP_BUCKETS; at++) {
            all->buckets[i][at] += node->buckets[i][at];
        }
        all->buckets_count[i] += node->buckets_count[i];
    }
    join_workers(all, node);
}

/* The host of HOST:PORT, with what its colons stand in. */
static struct slice
host_of(struct slice address)
{
    while (address.len != 0 && address.ptr[address.len - 1] != ':') {
        address.len--;
    }
    return (struct slice){address.ptr, address.len != 0 ? address.len - 1 : 0};
}

static void
put_node(struct top_nodes *nodes, const struct json_value *member,
         struct slice asked)
{
    struct slice name = status_text(member, "name");
    struct slice host = host_of(status_text(member, "address"));
    struct slice own = host_of(asked);
    struct slice port = {asked.ptr + own.len, asked.len - own.len};
    struct top_node *node = &nodes->node[nodes->count];
    bool tls = slice_begins(asked, SLICE("https://"));

    if (nodes->count == TOP_NODES_MAX || status_flag(member, "self") ||
        !slice_equal(status_text(member, "state"), SLICE("alive")) ||
        host.len == 0) {
        return;
    }
    top_copy_name(node->name, name);
    int len = snprintf(node->address, sizeof node->address, "%s%.*s%.*s",
                       tls ? "https://" : "", (int)host.len, host.ptr,
                       (int)port.len, port.ptr);
    nodes->count += len > 0 && (size_t)len < sizeof node->address;
}

bool
top_nodes_read(struct top_nodes *nodes, struct slice mesh, struct slice asked)
{
    struct json_tree_fault fault;
    struct json_value root;
    struct arena arena;
    uint32_t count = 0;

    nodes->count = 0;
    arena_init(&arena, TREE_BYTES_MAX);
    bool read = json_tree_read(mesh, &arena, &root, &fault) &&
                json_tree_member(&root, "members") != NULL;
    const struct json_value *members =
        read ? status_list(&root, "members", &count) : NULL;
    for (uint32_t i = 0; i < count; i++) {
        put_node(nodes, &members[i], asked);
    }
    arena_fini(&arena);
    return read;
}
