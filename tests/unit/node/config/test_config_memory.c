/* Each allocation of reading and printing a configuration fails once: either
 * all of it is in force, or a fault is told; nothing leaks. */
#include <criterion/criterion.h>

#include "node/config/config.h"
#include "node/text/json_show.h"
#include "tests/unit/failing_alloc.h"

static const struct slice good =
    SLICE("name: n1\nlimits: {head_bytes_max: 16KiB}\n"
          "workers:\n- {url: http://a:1, pool: x}\n- http://b:1\n"
          "# enough nodes that their list has to grow\n"
          "timeouts: {head: 1s, body: 1s, idle: 1s, write: 1s, connect: 1s,\n"
          "  first_byte: 1s, stream_idle: 1s, upstream_idle: 1s, drain: 1s}\n"
          "health: {path: /h, interval: 1s, timeout: 1s, failures: 1,\n"
          "  successes: 1, metrics_interval: 1s, models_interval: 1s}\n"
          "breaker: {failures: 1, successes: 1, open: 1s, open_max: 1s}\n");

static void
read_and_print(struct config *config, struct config_errors *errors,
               struct buf *out)
{
    const struct config_flag flag = {"log.level", "debug"};

    config_apply_yaml(config, "f", good, errors);
    config_apply_flags(config, &flag, 1, errors);
    config_check(config, errors);
    config_print(config, out);
}

/* What is printed when nothing fails. */
static char whole[65536];

/* One run; how many faults were told. */
static uint32_t
run(struct buf *out)
{
    struct config config;
    struct config_errors errors;

    config_init(&config);
    config_errors_init(&errors);
    read_and_print(&config, &errors, out);
    uint32_t count = errors.count;
    config_errors_fini(&errors);
    config_fini(&config);
    return count;
}

Test(node_config_memory, a_good_file_is_whole_or_told)
{
    struct buf out;
    uint64_t n = 0;

    buf_init(&out, sizeof whole);
    cr_assert_eq(run(&out), 0);
    cr_assert(!out.failed && out.len < sizeof whole);
    memcpy(whole, out.ptr, out.len);
    buf_fini(&out);
    for (; failing_alloc_after(n); n++) {
        buf_init(&out, sizeof whole);
        uint32_t faults = run(&out);
        cr_assert(faults != 0 || out.failed ||
                  slice_equal(buf_slice(&out), slice_of(whole)));
        buf_fini(&out);
    }
    cr_assert_gt(n, 5);
}

Test(node_config_memory, a_bad_file_is_never_taken_for_a_good_one)
{
    uint64_t n = 0;

    for (; failing_alloc_after(n); n++) {
        struct config config;
        struct config_errors errors;

        config_init(&config);
        config_errors_init(&errors);
        config_apply_yaml(
            &config, "f",
            SLICE("lanes: 99\nnone: 1\nlog: {level: [1]}\nlimits: 5\n"),
            &errors);
        cr_assert_geq(errors.count, 1);
        config_errors_fini(&errors);
        config_fini(&config);
    }
    cr_assert_gt(n, 3);
}

Test(node_config_memory, an_answer_is_shown_whole_or_not_at_all)
{
    uint64_t n = 0;

    for (; failing_alloc_after(n); n++) {
        struct buf out;

        buf_init(&out, 65536);
        cr_assert_eq(
            json_show(SLICE("{\"a\":1,\"t\":[{\"b\":2},{\"b\":3}]}"), &out), 0);
        cr_assert(out.failed ||
                  slice_equal(buf_slice(&out),
                              SLICE("a             1\nt\n  B\n  2\n  3\n")));
        buf_fini(&out);
    }
    cr_assert_gt(n, 1);
}
