/* The names and addresses that discovery knows, and which of them give way when
 * a bound is reached. */
#include "mesh/discover_internal.h"

#include <string.h>

/* Addresses */

static bool
in_use(const struct discover_address *address)
{
    return address->text[0] != '\0';
}

static void
forget_address(struct discover *d, struct discover_address *address)
{
    CHECK(in_use(address) && address->source != DISCOVER_NONE);
    d->stats.forgotten++;
    *address = (struct discover_address){0};
}

static struct discover_address *
find_address(struct discover *d, const char *text)
{
    CHECK(text[0] != '\0');
    for (uint32_t i = 0; i < DISCOVER_ADDRESSES_MAX; i++) {
        if (strcmp(d->addresses[i].text, text) == 0) {
            return &d->addresses[i];
        }
    }
    return NULL;
}

/* The slot of the address that was left out most often, among source's or among
 * all; NULL when the last answer named each of them. */
static struct discover_address *
most_missed(struct discover *d, uint32_t source, bool of_all)
{
    struct discover_address *worst = NULL;

    for (uint32_t i = 0; i < DISCOVER_ADDRESSES_MAX; i++) {
        struct discover_address *at = &d->addresses[i];
        if (at->missed > 0 && (of_all || at->source == source) &&
            (worst == NULL || at->missed > worst->missed)) {
            worst = at;
        }
    }
    if (worst != NULL) {
        forget_address(d, worst);
    }
    return worst;
}

static bool
has_all(const struct discover *d, uint32_t source)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < DISCOVER_ADDRESSES_MAX; i++) {
        count += in_use(&d->addresses[i]) && d->addresses[i].source == source;
    }
    CHECK(count <= DISCOVER_IPS_MAX);
    return count >= DISCOVER_IPS_MAX;
}

static struct discover_address *
address_room(struct discover *d, uint32_t source)
{
    CHECK(source == DISCOVER_NONE || source < DISCOVER_NAMES_MAX);
    if (has_all(d, source)) {
        return most_missed(d, source, false);
    }
    for (uint32_t i = 0; i < DISCOVER_ADDRESSES_MAX; i++) {
        if (!in_use(&d->addresses[i])) {
            return &d->addresses[i];
        }
    }
    return most_missed(d, source, true);
}

/* Who owns a known address that source names too: the configuration keeps its
 * own; otherwise the source that named it last, if its bound allows one
 * more. */
static uint32_t
new_source(const struct discover *d, const struct discover_address *at,
           uint32_t source)
{
    bool keeps = at->source == DISCOVER_NONE || has_all(d, source);

    CHECK(in_use(at));
    return keeps ? at->source : source;
}

bool
discover_address_put(struct discover *d, const char *text, uint32_t source)
{
    CHECK(source == DISCOVER_NONE || source < DISCOVER_NAMES_MAX);
    CHECK(text[0] != '\0' && strlen(text) < DISCOVER_ADDRESS_MAX);
    struct discover_address *at = find_address(d, text);

    if (at != NULL) {
        at->source = new_source(d, at, source);
    } else {
        at = address_room(d, source);
        if (at == NULL) {
            d->stats.full++;
            return false;
        }
        *at = (struct discover_address){.source = source};
        memcpy(at->text, text, strlen(text) + 1);
    }
    at->missed = 0;
    at->round = d->round;
    at->pending = true;
    return true;
}

static void
miss_addresses(struct discover *d, uint32_t source)
{
    CHECK(source < DISCOVER_NAMES_MAX);
    for (uint32_t i = 0; i < DISCOVER_ADDRESSES_MAX; i++) {
        struct discover_address *at = &d->addresses[i];
        if (!in_use(at) || at->source != source || at->round == d->round) {
            continue;
        }
        at->missed++;
        if (at->missed > d->config.missed_max) {
            forget_address(d, at);
        }
    }
}

void
discover_hint_again(struct discover *d, uint32_t source)
{
    CHECK(source == DISCOVER_NONE || source < DISCOVER_NAMES_MAX);
    for (uint32_t i = 0; i < DISCOVER_ADDRESSES_MAX; i++) {
        struct discover_address *at = &d->addresses[i];
        if (in_use(at) && at->source == source) {
            at->pending = true;
        }
    }
}

size_t
discover_take_ips(struct discover *d, uint32_t source,
                  const struct discover_ip *ips, size_t count)
{
    char text[DISCOVER_ADDRESS_MAX];
    size_t usable = 0;

    CHECK(source < DISCOVER_NAMES_MAX && (ips != NULL || count == 0));
    CHECK(d->names[source].what.kind == DISCOVER_HOST);
    d->round++;
    for (size_t i = 0; i < count; i++) {
        if (!discover_format(&ips[i], d->names[source].what.port, text)) {
            d->stats.unusable++;
            continue;
        }
        (void)discover_address_put(d, text, source); /* counts those without
                                                        room */
        usable++;
    }
    if (usable > 0) {
        miss_addresses(d, source);
    }
    return usable;
}

/* Names */

static void
forget_name(struct discover *d, struct discover_name *name)
{
    uint32_t source = (uint32_t)(name - d->names);

    CHECK(name->what.kind == DISCOVER_HOST);
    CHECK(name->parent != DISCOVER_NONE);
    for (uint32_t i = 0; i < DISCOVER_ADDRESSES_MAX; i++) {
        if (in_use(&d->addresses[i]) && d->addresses[i].source == source) {
            forget_address(d, &d->addresses[i]);
        }
    }
    d->stats.forgotten++;
    *name = (struct discover_name){0};
}

/* As for addresses; parent DISCOVER_NONE: among all. */
static struct discover_name *
most_missed_name(struct discover *d, uint32_t parent)
{
    struct discover_name *worst = NULL;

    for (uint32_t i = 0; i < DISCOVER_NAMES_MAX; i++) {
        struct discover_name *at = &d->names[i];
        if (at->missed > 0 &&
            (parent == DISCOVER_NONE || at->parent == parent) &&
            (worst == NULL || at->missed > worst->missed)) {
            worst = at;
        }
    }
    if (worst != NULL) {
        forget_name(d, worst);
    }
    return worst;
}

struct discover_name *
discover_name_room(struct discover *d)
{
    for (uint32_t i = 0; i < DISCOVER_NAMES_MAX; i++) {
        if (d->names[i].what.kind == 0) {
            return &d->names[i];
        }
    }
    return most_missed_name(d, DISCOVER_NONE);
}

static struct discover_name *
target_room(struct discover *d, uint32_t parent)
{
    uint32_t count = 0;

    CHECK(parent < DISCOVER_NAMES_MAX);
    for (uint32_t i = 0; i < DISCOVER_NAMES_MAX; i++) {
        count += d->names[i].what.kind != 0 && d->names[i].parent == parent;
    }
    return count < DISCOVER_TARGETS_MAX ? discover_name_room(d)
                                        : most_missed_name(d, parent);
}

static struct discover_name *
find_target(struct discover *d, uint32_t parent, const char *text,
            uint16_t port)
{
    CHECK(parent < DISCOVER_NAMES_MAX);
    for (uint32_t i = 0; i < DISCOVER_NAMES_MAX; i++) {
        struct discover_name *at = &d->names[i];
        if (at->what.kind != 0 && at->parent == parent &&
            at->what.port == port && strcmp(at->what.name, text) == 0) {
            return at;
        }
    }
    return NULL;
}

static void
put_target(struct discover *d, uint32_t parent, const char *text, uint16_t port)
{
    struct discover_name *at = find_target(d, parent, text, port);

    CHECK(port != 0 && text[0] != '\0');
    CHECK(d->names[parent].what.kind == DISCOVER_SERVICE);
    if (at == NULL) {
        at = target_room(d, parent);
        if (at == NULL) {
            d->stats.full++;
            return;
        }
        *at = (struct discover_name){
            .what = {.kind = DISCOVER_HOST, .port = port},
            .parent = parent,
            .next_us = d->now_us,
        };
        memcpy(at->what.name, text, strlen(text) + 1);
    }
    at->missed = 0;
    at->round = d->round;
}

static void
miss_targets(struct discover *d, uint32_t parent)
{
    CHECK(parent < DISCOVER_NAMES_MAX);
    for (uint32_t i = 0; i < DISCOVER_NAMES_MAX; i++) {
        struct discover_name *at = &d->names[i];
        if (at->what.kind == 0 || at->parent != parent ||
            at->round == d->round) {
            continue;
        }
        at->missed++;
        if (at->missed > d->config.missed_max) {
            forget_name(d, at);
        }
    }
}

size_t
discover_take_targets(struct discover *d, uint32_t source,
                      const struct discover_target *targets, size_t count)
{
    char text[DISCOVER_NAME_MAX];
    size_t usable = 0;

    CHECK(source < DISCOVER_NAMES_MAX && (targets != NULL || count == 0));
    CHECK(d->names[source].what.kind == DISCOVER_SERVICE);
    d->round++;
    for (size_t i = 0; i < count; i++) {
        const struct discover_target *target = &targets[i];
        struct slice name = {target->name,
                             strnlen(target->name, sizeof target->name)};
        /* A target of "." says that the service does not exist (RFC 2782). */
        if (target->port == 0 || !discover_name_read(name, text)) {
            d->stats.unusable++;
            continue;
        }
        put_target(d, source, text, target->port);
        usable++;
    }
    if (usable > 0) {
        miss_targets(d, source);
    }
    return usable;
}

/* Checks */

static const char *
name_fault(const struct discover *d, const struct discover_name *name)
{
    const struct discover_name *parent;

    if (name->wanted && name->ticket != 0) {
        return "a name is both asked for and to be asked for";
    }
    if (name->ticket > d->tickets || name->round > d->round) {
        return "a name is of the future";
    }
    if (name->parent == DISCOVER_NONE) {
        return name->missed == 0 ? NULL : "a join was left out";
    }
    if (name->parent >= DISCOVER_NAMES_MAX ||
        name->what.kind != DISCOVER_HOST) {
        return "a target is no target";
    }
    parent = &d->names[name->parent];
    if (parent->what.kind != DISCOVER_SERVICE ||
        parent->parent != DISCOVER_NONE) {
        return "a target's parent is no service";
    }
    return name->missed <= d->config.missed_max ? NULL : "a target outstayed";
}

static const char *
address_fault(const struct discover *d, uint32_t index)
{
    const struct discover_address *address = &d->addresses[index];

    for (uint32_t i = 0; i < index; i++) {
        if (strcmp(d->addresses[i].text, address->text) == 0) {
            return "an address is there twice";
        }
    }
    if (address->missed > d->config.missed_max) {
        return "an address outstayed";
    }
    if (address->source == DISCOVER_NONE) {
        return address->missed == 0 ? NULL : "the configuration was left out";
    }
    if (address->source >= DISCOVER_NAMES_MAX ||
        d->names[address->source].what.kind != DISCOVER_HOST) {
        return "an address has no source";
    }
    return NULL;
}

/* Counts the addresses and the targets of each name. */
static const char *
count_fault(const struct discover *d)
{
    uint32_t ips[DISCOVER_NAMES_MAX] = {0};
    uint32_t targets[DISCOVER_NAMES_MAX] = {0};
    uint32_t joins = 0;

    for (uint32_t i = 0; i < DISCOVER_ADDRESSES_MAX; i++) {
        if (in_use(&d->addresses[i]) &&
            d->addresses[i].source != DISCOVER_NONE) {
            ips[d->addresses[i].source]++;
        }
    }
    for (uint32_t i = 0; i < DISCOVER_NAMES_MAX; i++) {
        if (d->names[i].what.kind != 0 && d->names[i].parent != DISCOVER_NONE) {
            targets[d->names[i].parent]++;
        } else {
            joins += d->names[i].what.kind != 0;
        }
    }
    for (uint32_t i = 0; i < DISCOVER_NAMES_MAX; i++) {
        if (ips[i] > DISCOVER_IPS_MAX || targets[i] > DISCOVER_TARGETS_MAX) {
            return "a name named too many";
        }
    }
    return joins == d->joins && joins <= DISCOVER_JOINS_MAX
               ? NULL
               : "joins are miscounted";
}

bool
discover_check(const struct discover *d, const char **reason)
{
    const char *fault = NULL;

    CHECK(reason != NULL);
    for (uint32_t i = 0; fault == NULL && i < DISCOVER_NAMES_MAX; i++) {
        fault = d->names[i].what.kind != 0 ? name_fault(d, &d->names[i]) : NULL;
    }
    for (uint32_t i = 0; fault == NULL && i < DISCOVER_ADDRESSES_MAX; i++) {
        fault = in_use(&d->addresses[i]) ? address_fault(d, i) : NULL;
    }
    *reason = fault == NULL ? count_fault(d) : fault;
    return *reason == NULL;
}
