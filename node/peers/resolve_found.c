/* The answers of c-ares as addresses and targets, as many as fit. */
#include "node/peers/resolve_found_internal.h"

#include <netinet/in.h>
#include <string.h>

static enum discover_outcome
outcome_of_status(int status)
{
    switch (status) {
    case ARES_SUCCESS:
        return DISCOVER_FOUND;
    case ARES_ENODATA:
    case ARES_ENOTFOUND:
        return DISCOVER_ABSENT;
    case ARES_ETIMEOUT:
        return DISCOVER_TIMEOUT;
    default:
        return DISCOVER_FAILED;
    }
}

static enum discover_outcome
outcome_of(const struct resolve_found *found, int status)
{
    enum discover_outcome outcome = outcome_of_status(status);

    CHECK(found->ips_count <= DISCOVER_IPS_MAX);
    CHECK(found->targets_count <= DISCOVER_TARGETS_MAX);
    return outcome == DISCOVER_FOUND &&
                   found->ips_count + found->targets_count == 0
               ? DISCOVER_ABSENT
               : outcome;
}

static void
add_ip(struct resolve_found *found, const void *bytes, size_t size)
{
    struct discover_ip *ip = &found->ips[found->ips_count];

    CHECK(found->ips_count <= DISCOVER_IPS_MAX);
    CHECK(size <= sizeof ip->bytes);
    if (found->ips_count < DISCOVER_IPS_MAX) {
        *ip = (struct discover_ip){.size = (uint8_t)size};
        memcpy(ip->bytes, bytes, size);
        found->ips_count++;
    }
}

static void
add_address(struct resolve_found *found, const struct sockaddr *address)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (address->sa_family == AF_INET) {
        memcpy(&v4, address, sizeof v4);
        add_ip(found, &v4.sin_addr, sizeof v4.sin_addr);
    } else if (address->sa_family == AF_INET6) {
        memcpy(&v6, address, sizeof v6);
        add_ip(found, &v6.sin6_addr, sizeof v6.sin6_addr);
    }
}

enum discover_outcome
resolve_found_hosts(struct resolve_found *found, int status,
                    const struct ares_addrinfo *list)
{
    const struct ares_addrinfo_node *at = list != NULL ? list->nodes : NULL;

    *found = (struct resolve_found){0};
    for (; at != NULL; at = at->ai_next) {
        add_address(found, at->ai_addr);
    }
    return outcome_of(found, status);
}

bool
resolve_found_no_four(const struct ares_addrinfo *list)
{
    const struct ares_addrinfo_node *at = list != NULL ? list->nodes : NULL;

    while (at != NULL && at->ai_family != AF_INET) {
        at = at->ai_next;
    }
    return at == NULL;
}

static void
add_target(struct resolve_found *found, const struct ares_srv_reply *reply)
{
    struct discover_target *target = &found->targets[found->targets_count];
    size_t len = strlen(reply->host);

    CHECK(found->targets_count <= DISCOVER_TARGETS_MAX);
    if (found->targets_count < DISCOVER_TARGETS_MAX &&
        len < sizeof target->name) {
        *target = (struct discover_target){.port = reply->port};
        memcpy(target->name, reply->host, len);
        found->targets_count++;
    }
}

enum discover_outcome
resolve_found_service(struct resolve_found *found, int status,
                      const unsigned char *answer, int size)
{
    struct ares_srv_reply *replies = NULL;

    *found = (struct resolve_found){0};
    if (status == ARES_SUCCESS) {
        status = ares_parse_srv_reply(answer, size, &replies);
    }
    for (const struct ares_srv_reply *at = replies; at != NULL; at = at->next) {
        add_target(found, at);
    }
    ares_free_data(replies);
    return outcome_of(found, status);
}
