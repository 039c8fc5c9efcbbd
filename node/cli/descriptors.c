/* Descriptors: raised, reserved, and a bound on connections from them. */
#include "node/cli/descriptors_internal.h"

#include <limits.h>
#include <unistd.h>

#include "node/base/log.h"
#include "node/base/sock.h"

#define OTHER_FDS   1024U /* wanted beside those of connections */
#define RESERVE_FDS 512   /* for all that is not clients' */

/* Each connection may need two. */
void
descriptors_raise(struct descriptors *d, struct node_shared *node,
                  const struct config *config)
{
    *d = (struct descriptors){.node = node, .first_fd = -1};
    d->limit = sock_raise_limit((uint64_t)config->limits.connections_max * 2 +
                                OTHER_FDS);
}

/* The lowest descriptor that is free, -1 when none is. */
static int
find_first_fd(void)
{
    int fd = dup(STDERR_FILENO);

    if (fd >= 0) {
        (void)close(fd);
    }
    return fd;
}

void
descriptors_reserve(struct descriptors *d)
{
    int used = find_first_fd();

    CHECK(d->node != NULL);
    d->first_fd = used;
    if (used >= 0 && d->limit <= INT_MAX && d->limit > (uint64_t)used) {
        int left = (int)d->limit - used;
        int reserve = left / 4 < RESERVE_FDS ? left / 4 : RESERVE_FDS;
        d->node->fd_max = (int)d->limit - reserve;
    }
}

static bool
is_default(uint32_t connections_max)
{
    struct config usual;

    config_init(&usual);
    bool same = connections_max == usual.limits.connections_max;
    config_fini(&usual);
    return same;
}

/* The default is a bound that few nodes come near. But whoever wrote another
 * one counts on it, give or take a tenth. */
static void
say_few(const struct descriptors *d, uint32_t asked, uint32_t fit)
{
    if (is_default(asked) || fit >= asked - asked / 10) {
        LOG_INFO("fewer_connections", KV("descriptors", d->limit),
                 KV("connections", fit), KV("connections_max", asked));
    } else {
        LOG_WARNING("few_descriptors", KV("descriptors", d->limit),
                    KV("connections", fit), KV("connections_max", asked),
                    KV("hint", "restart with more open files (ulimit -n), or "
                               "lower limits.connections_max"));
    }
}

/* By the limit; but a connection may need two descriptors, its own and one to a
 * worker. */
void
descriptors_limit(struct descriptors *d)
{
    struct node_shared *node = d->node;
    const struct node_live *live = publish_get(&node->live);
    uint32_t asked = live->limits.connections_max;
    int max = (int)asked;

    if (node->fd_max != INT_MAX) {
        int fit = (node->fd_max - d->first_fd) / 2;
        max = fit >= max ? max : fit > 0 ? fit : 1;
    }
    gauge_set(&node->connections_max, max);
    if (max < (int)asked && asked != d->connections_asked) {
        say_few(d, asked, (uint32_t)max);
    }
    d->connections_asked = asked;
}
