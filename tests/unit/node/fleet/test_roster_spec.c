/* A worker, as bytes of the roster, is the same worker elsewhere. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "node/config/config_schema.h"
#include "node/fleet/roster_spec_internal.h"

static struct buf spec;
static struct config_errors errors;
static struct config_worker got;

static void
begin(void)
{
    buf_init(&spec, ROSTER_SPEC_MAX);
    config_errors_init(&errors);
}

static void
end(void)
{
    buf_fini(&spec);
    config_errors_fini(&errors);
}

TestSuite(node_roster_spec, .init = begin, .fini = end);

static struct config_worker
worker_of(const char *text)
{
    struct config_worker worker;

    cr_assert_eq(config_parse_worker(slice_of(text), "test", &worker, &errors),
                 0, "%.*s", (int)errors.text.len, errors.text.ptr);
    return worker;
}

static int
get(const char *id, struct slice text, bool secrets)
{
    return roster_spec_get(id, text, secrets, &got, &errors);
}

static const char whole[] =
    "http://gpu-1:8000/base,events=tcp://gpu-1:5557,replay=tcp://gpu-1:5657,"
    "id=one,island=eu,pool=long,role=decode,bootstrap_port=9,api_key=s3cret=#"
    "\"x,"
    "blocks_max=1234,ranks=8,topic=kv@1,sse=http://[::1]:9/events";

/* Of a worker that was named: beside its url, as in no list. */
static struct config_worker
whole_worker(void)
{
    struct config_worker worker = worker_of(whole);

    (void)snprintf(worker.from, sizeof worker.from, "dns:engines:8000");
    return worker;
}

Test(node_roster_spec, every_key_comes_back)
{
    struct config_worker worker = whole_worker();
    struct buf again;

    worker.left = true;
    buf_init(&again, ROSTER_SPEC_MAX);
    roster_spec_put(&worker, true, &spec);
    cr_assert_not(spec.failed);
    cr_assert_eq(get("one", buf_slice(&spec), true), 0);
    cr_assert_eq(memcmp(&got, &worker, sizeof got), 0);
    roster_spec_put(&got, true, &again);
    cr_assert(slice_equal(buf_slice(&spec), buf_slice(&again)));
    buf_fini(&again);
}

/* A key added to the table is covered by the test above only if it is set
 * there. */
Test(node_roster_spec, the_whole_worker_has_every_key)
{
    struct config_worker worker = whole_worker();
    uint32_t lines = 0;

    roster_spec_put(&worker, true, &spec);
    for (size_t i = 0; i < spec.len; i++) {
        lines += spec.ptr[i] == '\n';
    }
    cr_assert_eq(lines, config_schema_worker.count - 1, "all but the id");
}

Test(node_roster_spec, defaults_are_left_out)
{
    struct config_worker worker = worker_of("http://gpu-1:8000");

    roster_spec_put(&worker, true, &spec);
    cr_assert(slice_equal(buf_slice(&spec), SLICE("url=http://gpu-1:8000\n")));
    cr_assert_eq(get(worker.id, buf_slice(&spec), true), 0);
    cr_assert_eq(memcmp(&got, &worker, sizeof got), 0);
    worker.ranks = 0; /* as good as one */
    buf_clear(&spec);
    roster_spec_put(&worker, true, &spec);
    cr_assert(slice_equal(buf_slice(&spec), SLICE("url=http://gpu-1:8000\n")));
}

Test(node_roster_spec, secrets_travel_only_where_they_may)
{
    struct config_worker worker = worker_of("http://a:1,api_key=s3cret");

    roster_spec_put(&worker, false, &spec);
    cr_assert_null(memmem(spec.ptr, spec.len, "s3cret", 6));
    buf_clear(&spec);
    roster_spec_put(&worker, true, &spec);
    cr_assert_not_null(memmem(spec.ptr, spec.len, "s3cret", 6));
    cr_assert_eq(get("a", buf_slice(&spec), false), 0);
    cr_assert_str_eq(got.api_key, "", "nor are they taken");
    cr_assert_eq(get("a", buf_slice(&spec), true), 0);
    cr_assert_str_eq(got.api_key, "s3cret");
}

Test(node_roster_spec, keys_of_a_later_version_are_skipped)
{
    cr_assert_eq(get("one",
                     SLICE("colour=red=blue\nurl=http://a:1\n\nlonely\n"
                           "pool=p\nx="),
                     true),
                 0);
    cr_assert_str_eq(got.id, "one");
    cr_assert_str_eq(got.url.host, "a");
    cr_assert_str_eq(got.pool, "p");
    cr_assert_eq(got.ranks, 1);
}

Test(node_roster_spec, an_entry_has_its_own_id)
{
    cr_assert_eq(get("one", SLICE("id=two\nurl=http://a:1\n"), true), 0);
    cr_assert_str_eq(got.id, "one");
}

Test(node_roster_spec, values_that_make_no_sense_here_are_refused_in_words)
{
    static const char *const bad[] = {
        "",
        "url=",
        "url=ftp://a:1\n",
        "pool=p\n",
        "url=http://a:1\nranks=0\n",
        "url=http://a:1\nranks=4096\n",
        "url=http://a:1\npool=a b\n",
        "url=http://a:1\nevents=http://a:2\n",
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint32_t before = errors.count;
        cr_assert_eq(get("one", slice_of(bad[i]), true), CONFIG_E_INVALID, "%s",
                     bad[i]);
        cr_assert_gt(errors.count, before);
    }
    cr_assert_eq(get("a b", SLICE("url=http://a:1\n"), true), CONFIG_E_INVALID,
                 "an id that is none here");
}

Test(node_roster_spec, the_longest_worker_has_room)
{
    struct config_worker worker = worker_of(whole);

    memset(worker.url.host, 'h', sizeof worker.url.host - 1);
    worker.events = worker.replay = worker.sse = worker.url;
    memset(worker.url.path, 'p', sizeof worker.url.path - 1);
    memset(worker.events.path, 'p', sizeof worker.events.path - 1);
    memset(worker.replay.path, 'p', sizeof worker.replay.path - 1);
    memset(worker.sse.path, 'p', sizeof worker.sse.path - 1);
    memset(worker.api_key, 'k', sizeof worker.api_key - 1);
    memset(worker.pool, 'p', sizeof worker.pool - 1);
    worker.role = CONFIG_ROLE_PREFILL;
    worker.bootstrap_port = UINT16_MAX;
    memset(worker.island, 'p', sizeof worker.island - 1);
    memset(worker.topic, 'p', sizeof worker.topic - 1);
    roster_spec_put(&worker, true, &spec);
    cr_assert_not(spec.failed);
    cr_assert_lt(spec.len, ROSTER_SPEC_MAX);
}
