/* A wire's commands, as text. */
#include <inttypes.h>
#include <string.h>

#include "chaos/wire/wire.h"

#define NUMBER_DIGITS_MAX 12

struct order {
    struct wire *wire;
    struct wire_link link[WIRE_PORTS_MAX][WIRE_PORTS_MAX]; /* as it will be */
    struct buf *answer; /* what is wrong; empty: nothing so far */
    uint64_t bytes;     /* of ways that were asked for */
};

static void
refuse(struct order *order, const char *why, struct slice what)
{
    buf_printf(order->answer, "no: %s: %.*s", why, (int)what.len, what.ptr);
}

static struct slice
next_word(struct slice *line)
{
    *line = slice_trim(*line);
    return slice_take(line, ' ');
}

/* Ports *first up to *end; both 0 when there is no such port. */
static void
find_ports(struct order *order, struct slice word, uint32_t *first,
           uint32_t *end)
{
    const struct wire *wire = order->wire;

    *first = 0;
    *end = wire->ports_count;
    if (slice_equal(word, SLICE("*"))) {
        return;
    }
    while (*first < *end && !slice_equal(word, slice_of(wire->names[*first]))) {
        (*first)++;
    }
    if (*first == *end) {
        refuse(order, "no such port", word);
        *first = *end = 0;
        return;
    }
    *end = *first + 1;
}

static bool
read_number(struct slice text, uint64_t max, uint64_t *number)
{
    *number = 0;
    if (text.len == 0 || text.len > NUMBER_DIGITS_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9') {
            return false;
        }
        *number = *number * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    return *number <= max;
}

struct setting {
    enum {
        DELAY_US,
        JITTER_US,
        LOSS_PERMILLE,
        DUPLICATE_PERMILLE,
        SEVERED,
        SETTINGS
    } key;
    uint64_t value;
};

static const struct {
    const char *name;
    uint64_t max;
} settings[SETTINGS] = {
    [DELAY_US] = {"delay_us", WIRE_DELAY_MAX_US},
    [JITTER_US] = {"jitter_us", WIRE_DELAY_MAX_US},
    [LOSS_PERMILLE] = {"loss_permille", 1000},
    [DUPLICATE_PERMILLE] = {"duplicate_permille", 1000},
    [SEVERED] = {"severed", 1},
};

static bool
read_setting(struct slice word, struct setting *setting)
{
    struct slice key = slice_take(&word, '=');

    for (unsigned i = 0; i < SETTINGS; i++) {
        if (slice_equal(key, slice_of(settings[i].name))) {
            setting->key = i;
            return read_number(word, settings[i].max, &setting->value);
        }
    }
    return false;
}

static void
apply(struct wire_link *link, const struct setting *setting)
{
    switch (setting->key) {
    case DELAY_US:
        link->delay_us = setting->value;
        break;
    case JITTER_US:
        link->jitter_us = setting->value;
        break;
    case LOSS_PERMILLE:
        link->loss_permille = (uint32_t)setting->value;
        break;
    case DUPLICATE_PERMILLE:
        link->duplicate_permille = (uint32_t)setting->value;
        break;
    case SEVERED:
        link->severed = setting->value != 0;
        break;
    case SETTINGS:
        CHECK(false);
    }
}

static void
set_links(struct order *order, struct slice line)
{
    uint32_t from_first;
    uint32_t from_end;
    uint32_t to_first;
    uint32_t to_end;

    find_ports(order, next_word(&line), &from_first, &from_end);
    find_ports(order, next_word(&line), &to_first, &to_end);
    while (order->answer->len == 0 && (line = slice_trim(line)).len > 0) {
        struct slice word = next_word(&line);
        struct setting setting;
        if (!read_setting(word, &setting)) {
            refuse(order, "no such setting", word);
            return;
        }
        for (uint32_t from = from_first; from < from_end; from++) {
            for (uint32_t to = to_first; to < to_end; to++) {
                apply(&order->link[from][to], &setting);
            }
        }
    }
}

static void
add_bytes(struct order *order, struct slice line)
{
    uint32_t from_first;
    uint32_t from_end;
    uint32_t to_first;
    uint32_t to_end;

    find_ports(order, next_word(&line), &from_first, &from_end);
    find_ports(order, next_word(&line), &to_first, &to_end);
    for (uint32_t from = from_first; from < from_end; from++) {
        for (uint32_t to = to_first; to < to_end; to++) {
            order->bytes += order->wire->carried[from][to];
        }
    }
}

static void
carry_out(struct order *order, struct slice line)
{
    struct slice verb = next_word(&line);

    if (slice_equal(verb, SLICE("link"))) {
        set_links(order, line);
    } else if (slice_equal(verb, SLICE("reset"))) {
        memset(order->link, 0, sizeof(order->link));
    } else if (slice_equal(verb, SLICE("bytes"))) {
        add_bytes(order, line);
    } else if (verb.len > 0 && !slice_equal(verb, SLICE("counts"))) {
        refuse(order, "no such command", verb);
    }
}

void
wire_command(struct wire *wire, struct slice text, struct buf *answer)
{
    struct order order = {.wire = wire, .answer = answer};
    const struct wire_counts *counts = &wire->counts;

    memcpy(order.link, wire->link, sizeof(order.link));
    while (text.len > 0 && answer->len == 0) {
        carry_out(&order, slice_take(&text, '\n'));
    }
    if (answer->len > 0) {
        return;
    }
    memcpy(wire->link, order.link, sizeof(order.link));
    buf_printf(answer,
               "ok passed=%" PRIu64 " lost=%" PRIu64 " severed=%" PRIu64
               " duplicated=%" PRIu64 " full=%" PRIu64 " odd=%" PRIu64
               " bytes=%" PRIu64,
               counts->passed, counts->lost, counts->severed,
               counts->duplicated, counts->full, counts->odd, order.bytes);
}
