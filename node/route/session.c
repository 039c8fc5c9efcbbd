/* Session affinity: names, the worker of a session, and what it may decide. */
#include "node/route/session.h"

#include "index/base/rng.h"

static uint32_t
take_names(const char *text, struct slice name[CONFIG_NAMES_COUNT])
{
    struct slice left = slice_of(text);
    uint32_t count = 0;

    while (left.len != 0 && count < CONFIG_NAMES_COUNT) {
        name[count++] = slice_take(&left, ' ');
    }
    return count;
}

void
session_rule_init(struct session_rule *rule,
                  const struct config_affinity *affinity)
{
    *rule = (struct session_rule){
        .mode = (enum session_mode)affinity->mode,
        .text = *affinity,
    };
    if (rule->mode != SESSION_OFF) {
        rule->headers_count = take_names(rule->text.headers, rule->header);
        rule->fields_count = take_names(rule->text.fields, rule->field);
    }
}

void
session_rule_scan(const struct session_rule *rule, struct scan_limits *limits)
{
    _Static_assert(CONFIG_NAMES_COUNT <= SCAN_KEPT_MAX, "a scan keeps them");
    limits->kept = rule->field;
    limits->kept_count = rule->fields_count;
}

/* The first name that the request has; empty: it has none. */
static struct slice
name_of(const struct session_rule *rule, const struct session_asked *asked)
{
    for (uint32_t i = 0; asked->head != NULL && i < rule->headers_count; i++) {
        const struct http_header *h =
            http_head_find_name(asked->head, rule->header[i]);
        if (h != NULL && h->value.len != 0) {
            return h->value;
        }
    }
    for (uint32_t i = 0; asked->scan != NULL && i < rule->fields_count; i++) {
        const struct scan_text *text = &asked->scan->kept[i];
        if (text->present && text->len != 0) {
            return (struct slice){asked->body + text->at, text->len};
        }
    }
    return (struct slice){.ptr = NULL, .len = 0};
}

uint64_t
session_key(const struct session_rule *rule, const struct session_asked *asked)
{
    struct slice name = name_of(rule, asked);
    struct slice tenant = {(const char *)&asked->tenant, sizeof(asked->tenant)};

    if (name.len == 0) {
        return 0;
    }
    uint64_t key = key_root(asked->model, tenant, name);
    return key != 0 ? key : 1;
}

void
session_begin(struct session_place *place, enum session_mode mode, uint64_t key)
{
    place->mode = key != 0 ? mode : SESSION_OFF;
    if (place->mode == SESSION_OFF) {
        return;
    }
    place->home = WORKER_NONE;
    place->depth = 0;
    place->tied = false;
    place->credited = false;
    place->held = 0;
    worker_set_clear(&place->spared);
    for (uint32_t i = 0; i < SESSION_MOVES_MAX; i++) {
        place->keys[i] = key;
        key = rng_mix(key + SESSION_ROOT);
    }
}

/* The first by hash, so that all nodes take the same one. */
static uint32_t
first_by_hash(const struct worker_set *set, uint64_t key,
              const uint64_t *identity)
{
    uint32_t first = WORKER_NONE;
    uint64_t most = 0;

    WORKER_SET_EACH (slot, set) {
        uint64_t hash = rng_mix(identity[slot] ^ key);
        if (first == WORKER_NONE || hash > most) {
            first = slot;
            most = hash;
        }
    }
    return first;
}

void
session_find(struct session_place *place, const struct radix_match *match,
             const struct worker_set *able, const uint64_t *identity)
{
    struct worker_set homes;

    CHECK(place->mode != SESSION_OFF);
    worker_set_clear(&homes);
    place->depth = 0;
    WORKER_SET_EACH (slot, &match->workers) {
        uint32_t depth = match->depth[slot];
        if (depth > place->depth) {
            place->depth = depth;
            worker_set_clear(&homes);
        }
        if (depth == place->depth) {
            worker_set_add(&homes, slot);
        }
    }
    CHECK_SLOW(place->depth <= SESSION_MOVES_MAX);
    place->tied = worker_set_count(&homes) > 1;
    homes = worker_set_and(&homes, able);
    place->home = first_by_hash(&homes, place->keys[0], identity);
}

bool
session_bind(const struct session_place *place, struct worker_set *candidates)
{
    if (place->mode != SESSION_BOUND || place->depth == 0) {
        return true;
    }
    worker_set_clear(candidates);
    if (place->home != WORKER_NONE) {
        worker_set_add(candidates, place->home);
    }
    return place->home != WORKER_NONE;
}

/* A prompt too short for a block is one here, so that it can be held. */
void
session_credit(struct session_place *place, struct radix_match *match,
               struct elect_input *input)
{
    if (place->mode != SESSION_SOFT || place->home == WORKER_NONE) {
        return;
    }
    if (input->match == NULL) {
        worker_set_clear(&match->workers);
        match->best = 0;
        input->match = match;
    }
    if (input->total_blocks == 0) {
        input->total_blocks = 1;
    }
    place->held = worker_set_has(&match->workers, place->home)
                      ? match->depth[place->home]
                      : 0;
    place->credited = true;
    worker_set_add(&match->workers, place->home);
    match->depth[place->home] = input->total_blocks;
    match->best = input->total_blocks;
}

void
session_apply(struct session_place *place, const struct worker_set *full,
              struct elect_input *input)
{
    uint32_t home = place->home;

    if (place->mode == SESSION_OFF || place->mode == SESSION_BOUND) {
        return;
    }
    if (place->mode == SESSION_HARD && home != WORKER_NONE &&
        worker_set_has(&input->candidates, home) &&
        !worker_set_has(full, home)) {
        place->spared = input->candidates;
        worker_set_remove(&place->spared, home);
        worker_set_clear(&input->candidates);
        worker_set_add(&input->candidates, home);
        return;
    }
    if (place->mode == SESSION_HARD) {
        place->home = WORKER_NONE; /* it does not take the request */
    }
    if (place->home == WORKER_NONE) {
        input->prefix_key = place->keys[0];
        input->hashed = true;
    }
}

bool
session_spares(const struct session_place *place)
{
    return place->mode == SESSION_HARD && !worker_set_empty(&place->spared);
}

struct elect_config
session_rule_of(const struct session_place *place,
                const struct elect_config *usual)
{
    struct elect_config config = *usual;

    if (place->mode == SESSION_HARD && place->home == WORKER_NONE) {
        config.policy = ELECT_PREFIX_HASH;
    }
    return config;
}

static uint32_t
next_depth(const struct session_place *place)
{
    return place->depth < SESSION_MOVES_MAX ? place->depth + 1
                                            : SESSION_MOVES_MAX;
}

struct session_choice
session_settle(const struct session_place *place,
               const struct elect_input *input, struct elect_choice *choice)
{
    struct session_choice session = {.outcome = SESSION_NONE};

    if (place->mode == SESSION_OFF || choice->worker == WORKER_NONE) {
        return session;
    }
    CHECK_SLOW(worker_set_has(&input->candidates, choice->worker));
    if (choice->worker == place->home) {
        session.outcome = SESSION_KEPT;
        session.blocks = place->tied ? next_depth(place) : place->depth;
        choice->overlap = place->credited ? place->held : choice->overlap;
        choice->mode = ELECT_SESSION;
        choice->reason = place->mode == SESSION_BOUND
                             ? "stored: the worker that has it"
                             : "session: the worker that has it";
    } else if (place->home != WORKER_NONE) {
        session.outcome = SESSION_YIELDED;
        choice->reason = "session: the worker that has it costs more";
    } else if (place->depth != 0) {
        session.outcome = SESSION_MOVED;
        session.blocks = next_depth(place);
        choice->reason = "session moves: the worker that had it takes no more";
    } else {
        session.outcome = SESSION_NEW;
        session.blocks = 1;
        if (place->mode == SESSION_HARD) {
            choice->reason = "new session: first by hash";
        } else if (place->mode == SESSION_BOUND) {
            choice->reason = "stored: nobody is known to have it";
        }
    }
    return session;
}

void
session_count(struct metrics_lane *metrics, const struct session_choice *choice)
{
    switch (choice->outcome) {
    case SESSION_NEW:
        counter_bump(&metrics->sessions_new, 1);
        break;
    case SESSION_MOVED:
        counter_bump(&metrics->sessions_moved, 1);
        break;
    case SESSION_YIELDED:
        counter_bump(&metrics->sessions_yielded, 1);
        break;
    case SESSION_KEPT: /* its mode is counted */
    case SESSION_NONE:
        break;
    }
}
