/* One limit, kept by all nodes together. */
#include "node/limits/limits_meter.h"

#include <string.h>

#include "index/base/mutant.h"

#define PART          INT64_C(65536)
#define PASSED_MAX_US UINT64_C(100000) /* longer, and the node stood still */
#define PULL_US       UINT64_C(120000)
#define PULL_SHORT_US UINT64_C(90000) /* of windows of a second */
#define RETURN_US     UINT64_C(300000)
#define YIELD_US      UINT64_C(32000000)
#define UNHEARD_US    UINT64_C(60000000) /* instead of a window, of what is open */
#define UNHEARD_SHARE 40
#define IDLE_SHARE    4
#define WINDOW_CELLS  (LIMITS_CELLS - 1)

/* Cells */

static uint64_t
cell_us(const struct limits_meter *m)
{
    CHECK(m->window_ms != 0);
    return (uint64_t)m->window_ms * 1000 / WINDOW_CELLS;
}

static void
clear_cells(struct limits_meter *m)
{
    memset(m->own, 0, sizeof(m->own));
    memset(m->others, 0, sizeof(m->others));
    m->own_sum = 0;
    m->others_sum = 0;
}

/* Moves the window on to now_us; what of this node's own counts no more. */
static uint64_t
advance(struct limits_meter *m, uint64_t now_us)
{
    uint64_t before = m->own_sum;

    if (m->window_ms == 0) {
        return 0;
    }
    uint64_t now = now_us / cell_us(m);
    if (now > m->cell + LIMITS_CELLS) {
        m->cell = now;
        clear_cells(m);
    }
    while (m->cell < now) {
        uint64_t at = ++m->cell % LIMITS_CELLS;
        m->own_sum -= m->own[at];
        m->others_sum -= m->others[at];
        m->own[at] = 0;
        m->others[at] = 0;
    }
    CHECK(m->own_sum <= before);
    return before - m->own_sum;
}

static void
add_own(struct limits_meter *m, uint64_t spent)
{
    if (m->window_ms != 0) {
        m->own[m->cell % LIMITS_CELLS] += spent;
        m->own_sum += spent;
    }
}

static void
add_others(struct limits_meter *m, uint64_t spent)
{
    if (m->window_ms != 0) {
        m->others[m->cell % LIMITS_CELLS] += spent;
        m->others_sum += spent;
    }
}

/* Peers */

/* What peers know of the window and this node does not: it was not there. */
static void
look_back(struct limits_meter *m)
{
    uint64_t known = m->own_sum + m->others_sum;
    uint64_t most = 0;

    for (uint32_t i = 0; i < m->peers_high; i++) {
        most = m->peer[i].window > most ? m->peer[i].window : most;
    }
    bool learns = m->window_ms != 0 && m->now_us < m->learns_us;
    m->unknown = learns && most > known ? most - known : 0;
}

void
limits_meter_hear(struct limits_meter *m, uint32_t place, uint64_t id,
                  const struct limits_told *told)
{
    CHECK(place < LIMITS_PEERS_MAX && id != 0);
    struct limits_peer *peer = &m->peer[place];

    if (peer->id != id) {
        m->peers_high = place < m->peers_high ? m->peers_high : place + 1;
        if (told->window > m->own_sum + m->others_sum) {
            m->learns_us = m->now_us + (uint64_t)m->window_ms * 1000;
        }
    } else if (told->spent > peer->spent) {
        uint64_t more = told->spent - peer->spent;
        more = MUTANT(DEAF_LIMIT) ? 0 : more;
        add_others(m, more < LIMITS_AMOUNT_MAX ? more : LIMITS_AMOUNT_MAX);
    }
    *peer = (struct limits_peer){.id = id,
                                 .spent = told->spent,
                                 .open = told->open,
                                 .window = told->window};
}

void
limits_meter_lost(struct limits_meter *m, uint32_t place)
{
    CHECK(place < LIMITS_PEERS_MAX);
    if (!MUTANT(OPEN_STAYS)) {
        m->peer[place] = (struct limits_peer){.id = 0};
    }
}

static uint64_t
others_open(const struct limits_meter *m)
{
    uint64_t open = 0;

    for (uint32_t i = 0; i < m->peers_high; i++) {
        open += m->peer[i].open;
    }
    return open;
}

static uint32_t
narrow(uint64_t number)
{
    return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

struct limits_told
limits_meter_tell(const struct limits_meter *m)
{
    return (struct limits_told){
        .spent = m->spent,
        .open = narrow(m->open),
        .window = narrow(m->own_sum + m->others_sum),
    };
}

/* Credit */

uint64_t
limits_meter_used(const struct limits_meter *m)
{
    return m->own_sum + m->others_sum + m->unknown + m->open + others_open(m);
}

/* May be below 0: then so much was taken too much. */
static int64_t
free_of(const struct limits_meter *m)
{
    uint64_t used = limits_meter_used(m);
    uint64_t most = 2 * (uint64_t)LIMITS_AMOUNT_MAX;

    return (int64_t)m->limit - (int64_t)(used < most ? used : most);
}

/* parts * passed / all, of numbers that are 0 or more. */
static int64_t
share(int64_t number, uint64_t passed_us, uint64_t all_us)
{
    CHECK_SLOW(number >= 0 && passed_us <= PASSED_MAX_US && all_us != 0);
    return (int64_t)((uint64_t)number * (uint64_t)PART * passed_us / all_us);
}

static uint64_t
pull_us(const struct limits_meter *m, uint32_t nodes)
{
    bool is_short = m->window_ms != 0 && m->window_ms < 10000;

    return nodes * (is_short ? PULL_SHORT_US : PULL_US);
}

/* Credit that a node may keep without using it. */
static int64_t
idle_credit(int64_t free, int64_t parts)
{
    int64_t idle = free * PART / parts;

    return idle > PART ? idle : PART;
}

/* What was taken and given back since the last tick. */
static void
charge(struct limits_meter *m, uint64_t level)
{
    int64_t moved = (int64_t)(level - m->level);
    int64_t most = 2 * (int64_t)LIMITS_AMOUNT_MAX;

    moved = moved > most ? most : moved;
    moved = moved < -most ? -most : moved;
    m->credit -= moved * PART;
}

static void
grow(struct limits_meter *m, const struct limits_peers *peers, int64_t free,
     uint64_t passed_us)
{
    uint32_t nodes = peers->count + 1;
    int64_t idle = idle_credit(free, (int64_t)nodes * IDLE_SHARE);
    int64_t wanted = m->waits < m->limit ? (int64_t)m->waits : m->limit;

    int64_t pulled = share(free, passed_us, pull_us(m, nodes));

    if (!peers->settled) {
        uint64_t all_us =
            m->window_ms != 0 ? (uint64_t)m->window_ms * 1000 : UNHEARD_US;
        int64_t even = share(m->limit, passed_us, all_us);
        pulled = pulled < even ? pulled : even;
        idle = idle_credit(m->limit, UNHEARD_SHARE);
    }
    idle += wanted * PART;
    if (m->credit > -PART && wanted == 0) {
        int64_t held = (int64_t)(m->own_sum + m->open);
        held = held < (int64_t)m->limit ? held : (int64_t)m->limit;
        m->credit -= share(held, passed_us, YIELD_US);
    }
    /* What is not used is not asked for: several nodes at rest would each come
     * to have nearly all that is free. */
    int64_t room = idle > m->credit ? idle - m->credit : 0;
    m->credit += pulled < room ? pulled : room;
    if (m->credit > idle) {
        m->credit -= (m->credit - idle) / (int64_t)(RETURN_US / passed_us + 1);
    }
}

static void
earn(struct limits_meter *m, const struct limits_peers *peers, uint64_t again,
     uint64_t passed_us)
{
    int64_t free = free_of(m) > 0 ? free_of(m) : 0;
    int64_t most = (int64_t)m->limit * PART;

    if ((peers->count == 0 && peers->settled) || MUTANT(ALL_FREE)) {
        m->credit = free * PART;
        return;
    }
    again = again < m->limit ? again : m->limit;
    m->credit += (int64_t)again * PART;
    if (passed_us != 0) {
        grow(m, peers, free, passed_us);
    }
    m->credit = m->credit < free * PART ? m->credit : free * PART;
    m->credit = m->credit > -most ? m->credit : -most;
}

/* Ticks */

/* level + n, and 0 where that is less. */
static uint64_t
above(uint64_t level, int64_t n)
{
    if (n < 0) {
        return level > (uint64_t)-n ? level - (uint64_t)-n : 0;
    }
    return level + (uint64_t)n;
}

/* When the first and the last of what was spent count no more. */
static void
put_times(const struct limits_meter *m, struct limits_gate *gate)
{
    uint64_t first_ms = 0;
    uint64_t last_ms = 0;

    for (uint64_t i = 0; m->own_sum + m->others_sum != 0 && i < LIMITS_CELLS;
         i++) {
        uint64_t cell = m->cell + i + 1; /* the oldest is next to be reused */
        uint64_t at = cell % LIMITS_CELLS;
        if (m->own[at] + m->others[at] != 0) {
            uint64_t left_us = cell * cell_us(m) - m->now_us;
            last_ms = left_us / 1000;
            first_ms = first_ms == 0 ? last_ms + 1 : first_ms;
        }
    }
    counter_set(&gate->first_ms, first_ms);
    counter_set(&gate->last_ms, last_ms);
}

void
limits_meter_tick(struct limits_meter *m, struct limits_gate *gate,
                  const struct limits_peers *peers, uint64_t now_us)
{
    CHECK(now_us >= m->now_us && peers->count <= LIMITS_PEERS_MAX);
    uint64_t passed_us = now_us - m->now_us;
    uint64_t spent = counter_read(&gate->spent);
    uint64_t level = counter_read(&gate->level);

    m->now_us = now_us;
    uint64_t again = advance(m, now_us);
    add_own(m, spent - m->spent);
    look_back(m);
    m->spent = spent;
    /* Lanes may be between their two numbers, or still in the one before. */
    m->open =
        level > spent && level - spent < UINT64_MAX / 2 ? level - spent : 0;
    charge(m, level);
    m->level = level;
    m->waits = counter_read(&gate->waits);
    earn(m, peers, again,
         passed_us < PASSED_MAX_US ? passed_us : PASSED_MAX_US);

    int64_t free = free_of(m);
    int64_t credit = m->credit / PART;
    counter_set(&gate->limit, m->limit);
    counter_set(&gate->most, above(level, free));
    counter_set(&gate->open, above(level, credit < free ? credit : free));
    put_times(m, gate);
}

/* The beginning */

void
limits_meter_set(struct limits_meter *m, uint32_t limit, uint32_t window_ms)
{
    CHECK(limit <= LIMITS_AMOUNT_MAX);
    CHECK(window_ms == 0 || window_ms >= LIMITS_CELLS);
    m->limit = limit;
    if (m->window_ms != window_ms) {
        m->window_ms = window_ms;
        clear_cells(m);
        m->cell = window_ms != 0 ? m->now_us / cell_us(m) : 0;
    }
}

void
limits_meter_init(struct limits_meter *m, uint32_t limit, uint32_t window_ms,
                  uint64_t now_us, uint64_t seed)
{
    memset(m, 0, sizeof(*m));
    m->now_us = now_us;
    m->credit = PART;
    rng_init(&m->rng, seed);
    limits_meter_set(m, limit, window_ms);
}

bool
limits_meter_check(const struct limits_meter *m, const char **reason)
{
    uint64_t own = 0;
    uint64_t others = 0;

    for (uint32_t i = 0; i < LIMITS_CELLS; i++) {
        own += m->own[i];
        others += m->others[i];
    }
    *reason = own != m->own_sum         ? "own cells do not add up"
              : others != m->others_sum ? "others' cells do not add up"
              : m->credit > (int64_t)LIMITS_AMOUNT_MAX * PART
                  ? "there is more credit than any limit"
                  : NULL;
    return *reason == NULL;
}

/* For clients */

struct limits_standing
limits_gate_standing(const struct limits_gate *gate, uint64_t n)
{
    uint64_t limit = counter_read(&gate->limit);
    uint64_t most = counter_read(&gate->most);
    uint64_t level = counter_read(&gate->level);
    uint64_t first_ms = counter_read(&gate->first_ms);
    uint64_t last_ms = counter_read(&gate->last_ms);
    uint64_t left = most > level ? most - level : 0;
    struct limits_standing s = {.limit = limit, .reset_ms = last_ms};

    s.left = left < limit ? left : limit;
    uint64_t lacks = n > s.left ? n - s.left : 0;
    uint64_t used = limit - s.left;
    if (lacks == 0 || used == 0) {
        return s; /* soon: other nodes may have it, or it was just given back */
    }
    uint64_t more_ms = last_ms > first_ms ? last_ms - first_ms : 0;
    s.wait_ms = first_ms + more_ms * (lacks < used ? lacks : used) / used;
    return s;
}
