/*
 * Where other nodes may be: looks joins up when they are due, and gives hints.
 */
#include "mesh/discover.h"

#include <string.h>

#include "mesh/discover_internal.h"

static const char *const outcome_names[DISCOVER_OUTCOMES] = {
    [DISCOVER_NOT_YET] = "not_yet", [DISCOVER_FOUND] = "found",
    [DISCOVER_ABSENT] = "absent",   [DISCOVER_TIMEOUT] = "timeout",
    [DISCOVER_FAILED] = "failed",
};

const char *
discover_outcome_name(enum discover_outcome outcome)
{
    CHECK(outcome < DISCOVER_OUTCOMES);
    return outcome_names[outcome];
}

struct discover_config
discover_config_default(void)
{
    return (struct discover_config){
        .poll_ms = 5000,
        .alone_ms = 1000,
        .expected = 2,
        .missed_max = 120,
    };
}

void
discover_init(struct discover *d, const struct discover_config *config,
              uint64_t now_us, uint64_t seed)
{
    CHECK(config->poll_ms > 0 && config->alone_ms > 0);
    CHECK(now_us != UINT64_MAX);
    *d = (struct discover){
        .config = *config,
        .now_us = now_us,
        .fixed_us = UINT64_MAX,
        .alive = 1,
    };
    rng_init(&d->rng, seed);
}

/* Time never goes back, whatever the caller says. */
static void
pass(struct discover *d, uint64_t now_us)
{
    CHECK(now_us != UINT64_MAX);
    if (now_us > d->now_us) {
        d->now_us = now_us;
    }
}

static uint64_t
next_look_us(struct discover *d)
{
    uint32_t expected = d->config.expected > 2 ? d->config.expected : 2;
    uint32_t ms = d->alive < expected ? d->config.alone_ms : d->config.poll_ms;
    uint64_t us = (uint64_t)ms * 1000;

    CHECK(us > 0);
    return d->now_us + us - rng_below(&d->rng, us / 5 + 1);
}

static bool
is_same(const struct discover_join *a, const struct discover_join *b)
{
    return a->kind == b->kind && a->port == b->port &&
           strcmp(a->name, b->name) == 0;
}

static int
add_name(struct discover *d, const struct discover_join *join)
{
    struct discover_name *name;

    CHECK(join->kind == DISCOVER_HOST || join->kind == DISCOVER_SERVICE);
    CHECK(join->name[0] != '\0');
    for (uint32_t i = 0; i < DISCOVER_NAMES_MAX; i++) {
        if (d->names[i].parent == DISCOVER_NONE &&
            is_same(&d->names[i].what, join)) {
            return 0;
        }
    }
    if (d->joins == DISCOVER_JOINS_MAX) {
        return DISCOVER_E_FULL;
    }
    name = discover_name_room(d);
    if (name == NULL) {
        return DISCOVER_E_FULL;
    }
    *name = (struct discover_name){
        .what = *join,
        .parent = DISCOVER_NONE,
        .next_us = d->now_us,
    };
    d->joins++;
    CHECK(d->joins <= DISCOVER_JOINS_MAX);
    return 0;
}

int
discover_add(struct discover *d, const struct discover_join *join,
             uint64_t now_us)
{
    CHECK(join->kind >= DISCOVER_ADDRESS && join->kind <= DISCOVER_SERVICE);
    pass(d, now_us);
    if (join->kind != DISCOVER_ADDRESS) {
        return add_name(d, join);
    }
    if (!discover_address_put(d, join->name, DISCOVER_NONE)) {
        return DISCOVER_E_FULL;
    }
    if (d->fixed_us == UINT64_MAX) {
        d->fixed_us = next_look_us(d);
    }
    return 0;
}

void
discover_members(struct discover *d, uint32_t alive, uint64_t now_us)
{
    pass(d, now_us);
    d->alive = alive;
    for (uint32_t i = 0; i < DISCOVER_NAMES_MAX; i++) {
        struct discover_name *name = &d->names[i];
        uint64_t next_us = next_look_us(d);
        if (name->what.kind != 0 && name->ticket == 0 &&
            next_us < name->next_us && !name->wanted) {
            name->next_us = next_us;
        }
    }
    uint64_t fixed_us = next_look_us(d);
    if (d->fixed_us != UINT64_MAX && fixed_us < d->fixed_us) {
        d->fixed_us = fixed_us;
    }
}

static struct discover_name *
find_ticket(struct discover *d, uint64_t ticket)
{
    for (uint32_t i = 0; i < DISCOVER_NAMES_MAX; i++) {
        if (ticket != 0 && d->names[i].ticket == ticket) {
            return &d->names[i];
        }
    }
    return NULL;
}

/* Takes in the answer's contents; returns how many of them were usable. */
static size_t
take_answer(struct discover *d, uint32_t source,
            const struct discover_answer *answer)
{
    CHECK(source < DISCOVER_NAMES_MAX);
    CHECK(d->names[source].what.kind == DISCOVER_HOST ||
          d->names[source].what.kind == DISCOVER_SERVICE);
    if (answer->outcome != DISCOVER_FOUND) {
        return 0;
    }
    if (d->names[source].what.kind == DISCOVER_SERVICE) {
        return discover_take_targets(d, source, answer->targets,
                                     answer->targets_count);
    }
    return discover_take_ips(d, source, answer->ips, answer->ips_count);
}

void
discover_answered(struct discover *d, const struct discover_answer *answer,
                  uint64_t now_us)
{
    struct discover_name *name = find_ticket(d, answer->ticket);
    enum discover_outcome outcome = answer->outcome;

    CHECK(answer->ips != NULL || answer->ips_count == 0);
    CHECK(answer->targets != NULL || answer->targets_count == 0);
    CHECK(outcome > DISCOVER_NOT_YET && outcome < DISCOVER_OUTCOMES);
    pass(d, now_us);
    if (name == NULL) {
        d->stats.strays++;
        return;
    }
    uint32_t source = (uint32_t)(name - d->names);

    if (take_answer(d, source, answer) == 0 && outcome == DISCOVER_FOUND) {
        outcome = DISCOVER_ABSENT;
    }
    CHECK(name->ticket == answer->ticket); /* it did not give way itself */
    d->stats.answers[outcome]++;
    name->news = name->news || name->outcome != outcome;
    name->outcome = outcome;
    name->ticket = 0;
    name->next_us = next_look_us(d);
    discover_hint_again(d, source);
}

static void
tick_name(struct discover *d, uint32_t at)
{
    struct discover_name *name = &d->names[at];

    CHECK(at < DISCOVER_NAMES_MAX);
    if (name->what.kind == 0 || name->wanted || d->now_us < name->next_us) {
        return;
    }
    if (name->ticket != 0) {
        d->stats.lost++;
        name->ticket = 0;
        discover_hint_again(d, at);
    }
    name->wanted = true;
    name->next_us = UINT64_MAX;
}

void
discover_tick(struct discover *d, uint64_t now_us)
{
    pass(d, now_us);
    for (uint32_t i = 0; i < DISCOVER_NAMES_MAX; i++) {
        tick_name(d, i);
    }
    if (d->now_us >= d->fixed_us) {
        d->fixed_us = next_look_us(d);
        discover_hint_again(d, DISCOVER_NONE);
    }
}

uint64_t
discover_deadline(const struct discover *d)
{
    uint64_t at = d->fixed_us;

    for (uint32_t i = 0; i < DISCOVER_NAMES_MAX; i++) {
        const struct discover_name *name = &d->names[i];
        if (name->what.kind != 0 && name->next_us < at) {
            at = name->next_us;
        }
    }
    return at;
}

static bool
name_out(struct discover *d, struct discover_name *name,
         struct discover_out *out)
{
    if (!name->news && !name->wanted) {
        return false;
    }
    CHECK(name->what.kind == DISCOVER_HOST ||
          name->what.kind == DISCOVER_SERVICE);
    CHECK(!name->wanted || name->ticket == 0);
    *out = (struct discover_out){
        .kind = name->news ? DISCOVER_OUT_NEWS : DISCOVER_OUT_RESOLVE,
        .lookup = name->what.kind,
        .outcome = name->outcome,
        .name = name->what.name,
    };
    if (name->news) {
        name->news = false;
        return true;
    }
    d->stats.lookups++;
    name->wanted = false;
    name->ticket = ++d->tickets;
    name->next_us = d->now_us + DISCOVER_LOST_US;
    out->ticket = name->ticket;
    return true;
}

static bool
address_out(struct discover *d, struct discover_address *address,
            struct discover_out *out)
{
    if (!address->pending) {
        return false;
    }
    CHECK(address->text[0] != '\0');
    address->pending = false;
    d->stats.hints++;
    *out = (struct discover_out){
        .kind = DISCOVER_OUT_HINT,
        .address = address->text,
    };
    return true;
}

/* Both searches continue where they stopped, so that an entry late in a table
 * waits for its turn, and not until all before it are silent. */
bool
discover_next_out(struct discover *d, struct discover_out *out)
{
    CHECK(d->address_at <= DISCOVER_ADDRESSES_MAX);
    CHECK(d->name_at < DISCOVER_NAMES_MAX);
    for (uint32_t i = 0; i < DISCOVER_ADDRESSES_MAX; i++) {
        uint32_t at = (d->address_at + i) % DISCOVER_ADDRESSES_MAX;
        if (address_out(d, &d->addresses[at], out)) {
            d->address_at = at + 1;
            return true;
        }
    }
    for (uint32_t i = 0; i < DISCOVER_NAMES_MAX; i++) {
        uint32_t at = (d->name_at + i) % DISCOVER_NAMES_MAX;
        if (name_out(d, &d->names[at], out)) {
            d->name_at = at;
            return true;
        }
    }
    return false;
}

void
discover_stats(const struct discover *d, struct discover_stats *stats)
{
    *stats = d->stats;
    for (uint32_t i = 0; i < DISCOVER_NAMES_MAX; i++) {
        stats->names += d->names[i].what.kind != 0;
    }
    for (uint32_t i = 0; i < DISCOVER_ADDRESSES_MAX; i++) {
        stats->addresses += d->addresses[i].text[0] != '\0';
    }
    CHECK(stats->names >= d->joins && stats->names <= DISCOVER_NAMES_MAX);
}
