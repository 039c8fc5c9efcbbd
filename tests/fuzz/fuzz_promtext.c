/* Any text is walked to its end inside its bytes, in at most as many samples
 * as it has lines, and yields finite, non-negative numbers. */
#include <math.h>
#include <stdlib.h>

#include "index/base/check.h"
#include "node/fleet/engine_metrics.h"
#include "node/text/promtext.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
inside(struct slice part, struct slice whole)
{
    CHECK(part.len == 0 || (part.ptr >= whole.ptr &&
                            part.ptr + part.len <= whole.ptr + whole.len));
}

static void
sane(struct engine_number number)
{
    CHECK(!number.known || (isfinite(number.value) && number.value >= 0));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = {.ptr = (const char *)data, .len = size};
    struct promtext walk = promtext_of(text);
    struct promtext_sample sample;
    struct slice value;
    double number;
    size_t lines = 1;
    size_t samples = 0;

    for (size_t i = 0; i < size; i++) {
        lines += data[i] == '\n';
    }
    while (promtext_next(&walk, &sample)) {
        samples++;
        CHECK(sample.name.len > 0 && sample.value.len > 0);
        inside(sample.name, text);
        inside(sample.labels, text);
        inside(sample.value, text);
        if (promtext_label(&sample, SLICE("a"), &value)) {
            inside(value, sample.labels);
        }
        if (promtext_number(&sample, &number)) {
            CHECK(isfinite(number));
        }
    }
    CHECK(samples + walk.bad_lines <= lines);

    struct engine_metrics metrics;
    engine_metrics_read(text, &metrics);
    sane(metrics.running);
    sane(metrics.waiting);
    sane(metrics.kv_usage);
    sane(metrics.capacity);
    return 0;
}
