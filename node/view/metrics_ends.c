/* Counts how requests ended. */
#include "node/view/metrics_ends.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "index/base/check.h"

#define NAME  "kvasir_requests_total"
#define ABOVE 600U /* no code is */

static const struct {
    const char *name;
    enum metrics_code usual;
    const char *meaning;
} reasons[METRICS_REASONS_COUNT] = {
#define ROW(NAME, reason, code, meaning) \
    [METRICS_##NAME] = {reason, METRICS_CODE_##code, meaning},
    METRICS_REASONS(ROW)
#undef ROW
};

static const uint16_t codes[METRICS_CODES_COUNT] = {
#define ROW(code) [METRICS_CODE_##code] = (code),
    METRICS_CODES(ROW)
#undef ROW
};

static const uint8_t code_at[ABOVE] = {
#define ROW(code) [code] = METRICS_CODE_##code,
    METRICS_CODES(ROW)
#undef ROW
};

enum metrics_reason
metrics_reason_of(const char *name)
{
    unsigned reason = 0;

    while (reason < METRICS_REASONS_COUNT &&
           strcmp(reasons[reason].name, name) != 0) {
        reason++;
    }
    return reason < METRICS_REASONS_COUNT ? (enum metrics_reason)reason
                                          : METRICS_OTHER;
}

void
metrics_end(struct metrics_ends *ends, enum metrics_reason reason,
            unsigned code)
{
    CHECK(reason < METRICS_REASONS_COUNT);
    counter_bump(&ends->count[reason][code < ABOVE ? code_at[code] : 0], 1);
}

uint64_t
metrics_ended(const struct metrics_ends *ends, enum metrics_reason reason)
{
    uint64_t sum = 0;

    for (unsigned code = 0; code < METRICS_CODES_COUNT; code++) {
        sum += counter_read(&ends->count[reason][code]);
    }
    return sum;
}

void
metrics_ends_merge(struct metrics_ends *total, const struct metrics_ends *lane)
{
    for (unsigned reason = 0; reason < METRICS_REASONS_COUNT; reason++) {
        for (unsigned code = 0; code < METRICS_CODES_COUNT; code++) {
            counter_bump(&total->count[reason][code],
                         counter_read(&lane->count[reason][code]));
        }
    }
}

static void
put_head(struct buf *out)
{
    buf_printf(out, "# HELP " NAME " Requests that ended, by the code that "
                    "their client was told and why");
    for (unsigned reason = 0; reason < METRICS_REASONS_COUNT; reason++) {
        buf_printf(out, "%s%s (%s)", reason == 0 ? ": " : ", ",
                   reasons[reason].name, reasons[reason].meaning);
    }
    buf_add_text(out, "\n# TYPE " NAME " counter\n");
}

void
metrics_ends_print(const struct metrics_ends *total, struct buf *out)
{
    put_head(out);
    for (unsigned reason = 0; reason < METRICS_REASONS_COUNT; reason++) {
        for (unsigned code = 0; code < METRICS_CODES_COUNT; code++) {
            uint64_t count = counter_read(&total->count[reason][code]);
            char text[8] = "other";
            if (count == 0 && code != reasons[reason].usual) {
                continue;
            }
            if (code != METRICS_CODE_OTHER) {
                (void)snprintf(text, sizeof text, "%u", (unsigned)codes[code]);
            }
            buf_printf(out, NAME "{code=\"%s\",reason=\"%s\"} %" PRIu64 "\n",
                       text, reasons[reason].name, count);
        }
    }
}
