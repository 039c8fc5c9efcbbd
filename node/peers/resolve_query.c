#include "node/peers/resolve_query_internal.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <resolv.h>
#include <string.h>

#define TRIES 2

void
resolve_query_init(struct resolve_query *query, enum discover_kind kind,
                   const char *name, const struct resolve_config *config)
{
    uint32_t try_s = config->timeout_ms / 1000 / (2 * TRIES);

    query->kind = kind;
    memcpy(query->name, name, strlen(name) + 1);
    query->server = config->server;
    query->try_s = try_s > 0 ? (int)try_s : 1;
    query->outcome = DISCOVER_FAILED;
    query->found.ips_count = 0;
    query->found.targets_count = 0;
}

static enum discover_outcome
failure(int h_error, int error)
{
    switch (h_error) {
    case HOST_NOT_FOUND:
    case NO_DATA:
        return DISCOVER_ABSENT;
    case TRY_AGAIN:
        return error == ETIMEDOUT ? DISCOVER_TIMEOUT : DISCOVER_FAILED;
    default:
        return DISCOVER_FAILED;
    }
}

/* Found when records of that type came, else why not. */
static enum discover_outcome
ask(struct resolve_query *query, struct __res_state *state,
    enum resolve_type type)
{
    static const int numbers[] = {[RESOLVE_A] = ns_t_a,
                                  [RESOLVE_AAAA] = ns_t_aaaa,
                                  [RESOLVE_SRV] = ns_t_srv};
    struct resolve_found *found = &query->found;
    size_t before = found->ips_count + found->targets_count;
    bool own = query->server.sin_port != 0;

    errno = 0;
    int size = (own ? res_nquery : res_nsearch)(state, query->name, ns_c_in,
                                                numbers[type], query->message,
                                                (int)sizeof query->message);
    if (size < 0) {
        return failure(state->res_h_errno, errno);
    }
    if ((size_t)size > sizeof query->message) {
        return DISCOVER_FAILED;
    }
    resolve_read(query->message, (size_t)size, type, found);
    return found->ips_count + found->targets_count > before ? DISCOVER_FOUND
                                                            : DISCOVER_ABSENT;
}

/* No AAAA records beside some A records is the usual case; a server that does
 * not answer for the one would not for the other. */
static enum discover_outcome
ask_host(struct resolve_query *query, struct __res_state *state)
{
    enum discover_outcome v4 = ask(query, state, RESOLVE_A);

    if (v4 == DISCOVER_TIMEOUT) {
        return v4;
    }
    enum discover_outcome v6 = ask(query, state, RESOLVE_AAAA);
    return v4 == DISCOVER_FOUND || v6 == DISCOVER_ABSENT ? v4 : v6;
}

void
resolve_query_run(struct resolve_query *query)
{
    struct __res_state state = {0};

    if (res_ninit(&state) != 0) {
        query->outcome = DISCOVER_FAILED;
        return;
    }
    state.retrans = query->try_s;
    state.retry = TRIES;
    if (query->server.sin_port != 0) {
        state.nscount = 1;
        state.nsaddr_list[0] = query->server;
    }
    query->outcome = query->kind == DISCOVER_SERVICE
                         ? ask(query, &state, RESOLVE_SRV)
                         : ask_host(query, &state);
    res_nclose(&state);
}

void
resolve_query_take(struct resolve_query *query, int status,
                   const struct addrinfo *list)
{
    for (const struct addrinfo *at = list; at != NULL; at = at->ai_next) {
        resolve_add(&query->found, at->ai_addr);
    }
    switch (status) {
    case 0:
        query->outcome = DISCOVER_FOUND;
        return;
    case UV_EAI_NONAME:
    case UV_EAI_NODATA:
        query->outcome = DISCOVER_ABSENT;
        return;
    case UV_EAI_AGAIN:
        query->outcome = DISCOVER_TIMEOUT;
        return;
    default:
        query->outcome = DISCOVER_FAILED;
        return;
    }
}
