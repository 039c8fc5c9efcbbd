/* Rates, from text and back. */
#include "node/limits/limits_rate.h"

#include <inttypes.h>

static const struct unit {
    struct slice name;
    uint32_t window_ms;
    uint32_t times; /* of the amount that is written */
} units[] = {
    {{"/s", 2}, 4000, 4},
    {{"/min", 4}, 60000, 1},
    {{"/h", 2}, 3600000, 1},
};

#define UNITS (sizeof units / sizeof units[0])

const char *
limits_of_name(enum limits_of of)
{
    static const char *const names[LIMITS_OFS] = {
        [LIMITS_REQUESTS] = "requests",
        [LIMITS_TOKENS] = "tokens",
        [LIMITS_CONCURRENT] = "concurrent",
    };

    CHECK(of < LIMITS_OFS);
    return names[of];
}

/* A number without a leading zero, off the front of *text; 0: there is none. */
static uint64_t
take_amount(struct slice *text)
{
    uint64_t amount = 0;

    while (text->len != 0 && text->ptr[0] >= '0' && text->ptr[0] <= '9' &&
           (amount != 0 || text->ptr[0] != '0') &&
           amount <= LIMITS_AMOUNT_MAX) {
        amount = amount * 10 + (uint64_t)(text->ptr[0] - '0');
        text->ptr++;
        text->len--;
    }
    return amount;
}

bool
limits_rate_read(struct slice text, struct limits_rate *rate)
{
    if (slice_equal(text, SLICE("none"))) {
        *rate = (struct limits_rate){.amount = 0};
        return true;
    }
    uint64_t amount = take_amount(&text);
    for (size_t i = 0; amount != 0 && i < UNITS; i++) {
        uint64_t all = amount * units[i].times;
        if (slice_equal(text, units[i].name) && all <= LIMITS_AMOUNT_MAX) {
            *rate = (struct limits_rate){.amount = (uint32_t)all,
                                         .window_ms = units[i].window_ms};
            return true;
        }
    }
    return false;
}

bool
limits_rate_read_open(struct slice text, struct limits_rate *rate)
{
    uint64_t amount = take_amount(&text);

    if (amount == 0 || amount > LIMITS_AMOUNT_MAX || text.len != 0) {
        return false;
    }
    *rate = (struct limits_rate){.amount = (uint32_t)amount};
    return true;
}

void
limits_rate_print(const struct limits_rate *rate, struct buf *out)
{
    if (rate->amount == 0) {
        buf_add_text(out, "none");
        return;
    }
    for (size_t i = 0; i < UNITS; i++) {
        if (rate->window_ms == units[i].window_ms) {
            buf_printf(out, "%" PRIu32 "%s", rate->amount / units[i].times,
                       units[i].name.ptr);
            return;
        }
    }
    buf_printf(out, "%" PRIu32, rate->amount);
}
