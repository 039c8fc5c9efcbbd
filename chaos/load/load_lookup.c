/* The addresses of the server's name, looked up again after failures. */
#include "chaos/load/load_lookup_internal.h"

#include <netinet/in.h>
#include <string.h>

#define LOOKUP_TIMEOUT_MS 5000U

static void
tell_known(struct load_lookup *lookup)
{
    void (*known)(void *context) = lookup->known;

    lookup->known = NULL;
    if (known != NULL) {
        known(lookup->context);
    }
}

static void
on_answered(void *context, const struct discover_answer *answer)
{
    struct load_lookup *lookup = context;

    lookup->asking = false;
    if (answer->outcome == DISCOVER_FOUND) {
        load_targets_set(&lookup->targets, answer->ips, answer->ips_count,
                         lookup->url->port);
    } else {
        LOG_WARNING("lookup_failed", KV("name", lookup->url->host),
                    KV("outcome", discover_outcome_name(answer->outcome)));
    }
    tell_known(lookup);
}

void
load_lookup_again(struct load_lookup *lookup)
{
    struct discover_out ask = {
        .kind = DISCOVER_OUT_RESOLVE,
        .lookup = DISCOVER_HOST,
        .ticket = lookup->ticket + 1,
        .name = lookup->url->host,
    };

    if (lookup->resolve != NULL && !lookup->asking) {
        lookup->ticket++;
        lookup->asking = resolve_ask(lookup->resolve, &ask) == 0;
    }
}

/* The address that the host is; false: it is a name. */
static bool
read_address(const struct url *url, struct discover_ip *ip)
{
    struct sockaddr_storage address;

    if (url_sockaddr(url, &address) != 0) {
        return false;
    }
    if (address.ss_family == AF_INET) {
        ip->size = 4;
        memcpy(ip->bytes, &((struct sockaddr_in *)&address)->sin_addr, 4);
    } else {
        ip->size = 16;
        memcpy(ip->bytes, &((struct sockaddr_in6 *)&address)->sin6_addr, 16);
    }
    return true;
}

int
load_lookup_init(struct load_lookup *lookup, uv_loop_t *loop,
                 const struct url *url, const struct url *resolver)
{
    struct resolve_config config = {.timeout_ms = LOOKUP_TIMEOUT_MS,
                                    .server = resolver};
    struct resolve_owner owner = {.context = lookup, .answered = on_answered};
    struct discover_ip ip;

    *lookup = (struct load_lookup){.url = url};
    if (read_address(url, &ip)) {
        load_targets_set(&lookup->targets, &ip, 1, url->port);
        return 0;
    }
    return resolve_new(&lookup->resolve, loop, &config, &owner);
}

void
load_lookup_start(struct load_lookup *lookup, void (*known)(void *context),
                  void *context)
{
    lookup->known = known;
    lookup->context = context;
    if (lookup->targets.count != 0) {
        tell_known(lookup);
    } else {
        load_lookup_again(lookup);
    }
}

void
load_lookup_stop(struct load_lookup *lookup)
{
    resolve_free(lookup->resolve);
    lookup->resolve = NULL;
}
