#include "node/peers/resolve_read_internal.h"

#include <arpa/nameser.h>
#include <limits.h>
#include <netinet/in.h>
#include <resolv.h>
#include <string.h>

#define SRV_FIXED 6 /* priority, weight and port before the target */

static void
add_ip(struct resolve_found *found, const void *bytes, size_t size)
{
    struct discover_ip *ip = &found->ips[found->ips_count];

    if (found->ips_count < DISCOVER_IPS_MAX) {
        *ip = (struct discover_ip){.size = (uint8_t)size};
        memcpy(ip->bytes, bytes, size);
        found->ips_count++;
    }
}

void
resolve_add(struct resolve_found *found, const struct sockaddr *address)
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

static void
add_target(struct resolve_found *found, const ns_msg *message, const ns_rr *rr)
{
    const uint8_t *data = ns_rr_rdata(*rr);
    struct discover_target *target = &found->targets[found->targets_count];

    if (found->targets_count == DISCOVER_TARGETS_MAX ||
        ns_rr_rdlen(*rr) <= SRV_FIXED) {
        return;
    }
    *target = (struct discover_target){0};
    if (ns_name_uncompress(ns_msg_base(*message), ns_msg_end(*message),
                           data + SRV_FIXED, target->name,
                           sizeof target->name) < 0) {
        return;
    }
    target->port = (uint16_t)(data[4] << 8 | data[5]);
    found->targets_count++;
}

static void
add_record(struct resolve_found *found, const ns_msg *message, const ns_rr *rr,
           enum resolve_type type)
{
    static const struct {
        unsigned number;
        unsigned size;
    } is[] = {
        [RESOLVE_A] = {ns_t_a, 4},
        [RESOLVE_AAAA] = {ns_t_aaaa, 16},
        [RESOLVE_SRV] = {ns_t_srv, 0},
    };

    if (ns_rr_class(*rr) != ns_c_in || ns_rr_type(*rr) != is[type].number) {
        return;
    }
    if (type == RESOLVE_SRV) {
        add_target(found, message, rr);
    } else if (ns_rr_rdlen(*rr) == is[type].size) {
        add_ip(found, ns_rr_rdata(*rr), is[type].size);
    }
}

void
resolve_read(const uint8_t *bytes, size_t size, enum resolve_type type,
             struct resolve_found *found)
{
    ns_msg message;
    ns_rr rr;

    if (size > INT_MAX || ns_initparse(bytes, (int)size, &message) != 0) {
        return;
    }
    for (int i = 0; i < ns_msg_count(message, ns_s_an); i++) {
        if (ns_parserr(&message, ns_s_an, i, &rr) != 0) {
            return;
        }
        add_record(found, &message, &rr, type);
    }
}
