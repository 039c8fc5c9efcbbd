/* What `kvasir status` makes of a node's answer. */
#include <criterion/criterion.h>
#include <string.h>

#include "node/cli/status_internal.h"

#define COLUMNS_MAX 80

#define WELL                                                                  \
    "{\"node\":\"router-1\",\"version\":\"1.2.3\",\"uptime_s\":8072,"         \
    "\"ready\":true,\"draining\":false,"                                      \
    "\"mesh\":{\"cluster\":\"kvasir\",\"address\":\"10.0.0.11:7946\","        \
    "\"tls\":true,\"alive\":2,\"peers_up\":1,\"digest_mismatches\":0},"       \
    "\"members\":[{\"name\":\"router-1\",\"state\":\"alive\","                \
    "\"since_s\":8072,\"address\":\"10.0.0.11:7946\",\"link\":\"self\"},"     \
    "{\"name\":\"router-2\",\"state\":\"alive\",\"since_s\":40,"              \
    "\"address\":\"10.0.0.12:7946\",\"link\":\"up\"}],"                       \
    "\"streams\":[{\"worker\":\"gpu-1:8000\",\"rank\":0,"                     \
    "\"state\":\"complete\",\"lag\":2,\"blocks\":5000,"                       \
    "\"readers\":\"router-1,router-2\"}],"                                    \
    "\"snapshot\":{\"any\":true,\"age_ms\":34000,\"bytes\":12582912},"        \
    "\"requests\":{\"read\":20000000,\"inflight\":5,\"retries\":2,"           \
    "\"all_failed\":1,\"severed\":0,\"cancelled\":3,\"bad\":4,"               \
    "\"overload\":6,\"no_worker\":7},\"queue\":{\"waiting\":8},"              \
    "\"placement\":{\"affinity\":90,\"balance\":10,\"session\":2,"            \
    "\"policy_chosen\":0,\"prompt_tokens\":1000,\"cached_tokens\":712},"      \
    "\"index\":{\"mirror\":{\"bytes\":1536,\"bytes_max\":1073741824}},"       \
    "\"limits\":[{\"tenant\":\"shop\",\"model\":\"bge-*\",\"of\":\"tokens\"," \
    "\"limit\":1000000,\"used\":250,\"refused_here\":3}],"                    \
    "\"workers\":[{\"id\":\"gpu-1:8000\",\"state\":\"healthy\","              \
    "\"eligible\":true,\"inflight\":3,\"inflight_peers\":2,"                  \
    "\"inflight_foreign\":1,\"waiting\":4,\"kv_usage\":0.5},"                 \
    "{\"id\":\"gpu-2:8000\",\"state\":\"healthy\",\"eligible\":true,"         \
    "\"belief_blocks\":77}],"                                                 \
    "\"events\":[{\"worker\":\"gpu-1:8000\",\"rank\":0,\"state\":\"live\","   \
    "\"blocks\":5000,\"trust\":1.0,\"answers\":400,\"exact\":399,"            \
    "\"over\":1,\"under\":0}]}"

static struct buf shown;
static struct buf text;

static void
begin(void)
{
    buf_init(&shown, 1 << 20);
    buf_init(&text, 1 << 20);
}

static void
end(void)
{
    buf_fini(&shown);
    buf_fini(&text);
}

TestSuite(status, .init = begin, .fini = end);

static const char *
show(const char *json)
{
    buf_clear(&shown);
    cr_assert_eq(status_show(slice_of(json), &shown), 0, "%s", json);
    buf_add(&shown, "", 1);
    cr_assert_not(shown.failed);
    return shown.ptr;
}

/* The answer of a node that is well, with other text in one place. */
static const char *
show_with(const char *this, const char *other)
{
    const char *at = strstr(WELL, this);

    cr_assert_not_null(at, "%s", this);
    buf_clear(&text);
    buf_printf(&text, "%.*s%s%s", (int)(at - WELL), WELL, other,
               at + strlen(this));
    buf_add(&text, "", 1);
    return show(text.ptr);
}

static bool
says(const char *what)
{
    return strstr(shown.ptr, what) != NULL;
}

Test(status, names_the_commit_where_it_is_known)
{
    cr_assert_not_null(strstr(show(WELL), "router-1 1.2.3: ready"));
    cr_assert_not_null(strstr(
        show_with("\"uptime_s\"", "\"commit\":\"0123456789ab\",\"uptime_s\""),
        "router-1 1.2.3 (0123456789ab): ready"));
}

Test(status, a_node_that_is_well_has_nothing_to_look_at)
{
    cr_assert_str_eq(
        show(WELL),
        "router-1 1.2.3: ready, up 2 h 14 min\n"
        "\n"
        "mesh      kvasir: 2 of 2 nodes alive, 1 links up, TLS\n"
        "workers   2, of which 2 take requests\n"
        "requests  20.0M read, 5 in flight, 8 wait\n"
        "of these  2 retried, 1 failed, 0 severed, 3 cancelled\n"
        "refused   4 bad, 6 for overload, 7 without worker\n"
        "placed    90 by affinity, 10 by balance, 2 by session, 0 by policy\n"
        "cached    71.2 % of 1000 prompt tokens, as engines reported\n"
        "predicted 99.8 % of 400 exactly; 1 too high, 0 too low\n"
        "index     mirror 1.5 KiB (0 %), ledger 0 B (0 %), belief 0 B (0 %)\n"
        "snapshot  12.0 MiB, taken 34 s ago\n"
        "\n"
        "NODE                       STATE      LINK     ADDRESS\n"
        "router-1                   alive      self     10.0.0.11:7946\n"
        "router-2                   alive      up       10.0.0.12:7946\n"
        "\n"
        "EVENTS OF                  RANK STATE       LAG   BLOCKS READ BY\n"
        "gpu-1:8000                    0 complete      2     5000 "
        "router-1,router-2\n"
        "\n"
        "WORKER                     STATE       HERE   ALL  WAIT   KV   "
        "BLOCKS EVENTS\n"
        "gpu-1:8000                 healthy        3     6     4  50%     "
        "5000 live\n"
        "gpu-2:8000                 healthy        0     0     0   0%       "
        "77 none\n"
        "\n"
        "TENANT           MODEL            LIMIT OF        USED       OF    "
        "REFUSED\n"
        "shop             bge-*            tokens           250  1000000      "
        "    3\n");
}

/* A status of a mesh with that many workers, of which the last one is down. */
static const char *
show_fleet(unsigned count)
{
    buf_clear(&text);
    buf_add_text(&text, "{\"node\":\"n\",\"ready\":true,"
                        "\"members\":[{\"name\":\"n\",\"state\":\"alive\","
                        "\"link\":\"self\"},{\"name\":\"m\",\"state\":"
                        "\"alive\",\"link\":\"up\"}],\"workers\":[");
    for (unsigned i = 0; i < count; i++) {
        bool down = i == count - 1;
        buf_printf(&text,
                   "%s{\"id\":\"w%u\",\"state\":\"%s\",\"eligible\":%s,"
                   "\"inflight\":2,\"inflight_peers\":1,\"waiting\":3,"
                   "\"kv_usage\":0.%u}",
                   i != 0 ? "," : "", i, down ? "unhealthy" : "healthy",
                   down ? "false" : "true", i % 9 + 1);
    }
    buf_add_text(&text, "],\"streams\":[");
    for (unsigned i = 0; i < count; i++) {
        buf_printf(&text,
                   "%s{\"worker\":\"w%u\",\"rank\":0,\"state\":"
                   "\"complete\",\"lag\":%u,\"blocks\":10,"
                   "\"readers\":\"%s\"}",
                   i != 0 ? "," : "", i, i % 7, i == 5 ? "m" : "n,m");
    }
    buf_add_text(&text, "],\"events\":[");
    for (unsigned i = 0; i < count; i++) {
        buf_printf(&text,
                   "%s{\"worker\":\"w%u\",\"rank\":0,\"state\":\"live\","
                   "\"blocks\":10,\"trust\":1.0}",
                   i != 0 ? "," : "", i);
    }
    buf_add_text(&text, "]}");
    buf_add(&text, "", 1);
    return show(text.ptr);
}

Test(status, few_workers_have_a_line_each)
{
    (void)show_fleet(STATUS_ROWS_MAX);
    cr_assert(says("\nw30                        healthy        2     3     3  "
                   "40%       10 live\n"),
              "%s", shown.ptr);
    cr_assert(says("\nw30                           0 complete      2       10 "
                   "n,m\n"));
}

Test(status, of_many_workers_those_that_are_well_have_one_line)
{
    const char *page = show_fleet(640);

    cr_assert(says("\nlook at\n  w639 takes no requests: unhealthy\n"));
    cr_assert_not_null(
        strstr(page,
               "\n\n"
               "EVENTS OF                  RANK STATE       LAG   BLOCKS READ "
               "BY\n"
               "639 ranks                       complete      6     6390 n,m\n"
               "w5                            0 complete      5       10 m\n"
               "\n"
               "WORKER                     STATE       HERE   ALL  WAIT   KV   "
               "BLOCKS EVENTS\n"
               "639 workers                healthy     1278  1917  1917  90%   "
               "  6390 live\n"
               "w639                       unhealthy      2     3     3  10%   "
               "    10 live\n"),
        "%s", page);
}

Test(status, where_there_are_islands_it_says_what_leaves_this_one)
{
    (void)show_with("\"version\"",
                    "\"island\":\"eu/fra\",\"island_requests\":384,"
                    "\"island_crossed\":6,\"version\"");
    cr_assert(says("\nisland    6 of 384 requests left eu/fra\n"), "%s",
              shown.ptr);
}

Test(status, what_names_workers_has_a_line)
{
    (void)show_with("\"workers\":[",
                    "\"worker_sources\":[{\"from\":\"dns:engines.test:8000\","
                    "\"state\":\"good\",\"workers\":2}],\"workers\":[");
    cr_assert(says("take requests\n"
                   "named     2 by dns:engines.test:8000"));
    cr_assert_not(says("look at"));
}

Test(status, what_is_wrong_is_said_by_name)
{
    static const struct {
        const char *this, *other, *line;
    } cases[] = {
        {"\"ready\":true", "\"ready\":false", "router-1 is not ready"},
        {"\"state\":\"alive\",\"since_s\":40",
         "\"state\":\"dead\",\"since_s\":40", "router-2 is dead for 40 s"},
        {"\"link\":\"up\"", "\"link\":\"down\"",
         "router-2 has no good link: down"},
        {"\"state\":\"healthy\",\"eligible\":true,\"belief",
         "\"state\":\"unhealthy\",\"eligible\":false,\"reason\":\"connect\","
         "\"belief",
         "gpu-2:8000 takes no requests: unhealthy (connect)"},
        {"\"workers\":[",
         "\"worker_sources\":[{\"from\":\"dns:engines.test:8000\","
         "\"state\":\"timeout\",\"why\":\"nobody answered\","
         "\"refused\":3,\"workers\":2}],\"workers\":[",
         "dns:engines.test:8000 keeps its last list: nobody answered"},
        {"\"workers\":[",
         "\"worker_sources\":[{\"from\":\"file:/w.yaml\",\"state\":\"good\","
         "\"refused\":3,\"workers\":2}],\"workers\":[",
         "file:/w.yaml names 3 workers that have no place"},
        {"\"complete\"", "\"partial\"",
         "gpu-1:8000 rank 0: not all it holds is known: partial"},
        {"\"trust\":1.0", "\"trust\":0.5",
         "gpu-1:8000 rank 0: what it is said to hold counts 50.0 %"},
        {"\"limits\"",
         "\"left_out\":[{\"worker\":\"gpu-3:8000\",\"what\":\"events\","
         "\"why\":\"the fleet has too many ranks\"}],\"limits\"",
         "gpu-3:8000: no events, as the fleet has too many ranks"},
        {"\"limits\"",
         "\"models\":[{\"model\":\"m\",\"why\":\"no file\"}],\"limits\"",
         "m: no tokens are made here: no file"},
        {"\"limits\"", "\"model_files_differ\":2,\"limits\"",
         "router-1 has other files than its peers of 2 models"},
        {"\"digest_mismatches\":0", "\"digest_mismatches\":1",
         "router-1 found 1 streams that differed"},
    };

    (void)show(WELL);
    cr_assert_not(says("look at"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)show_with(cases[i].this, cases[i].other);
        buf_clear(&text);
        buf_printf(&text, "\nlook at\n  %s", cases[i].line);
        buf_add(&text, "", 1);
        cr_assert(says(text.ptr), "%s\n%s", cases[i].line, shown.ptr);
    }
}

/* Workers with so many kinds of trouble; 0: they take requests. */
static void
add_workers(unsigned count, const char *id, unsigned troubles)
{
    buf_clear(&text);
    buf_add_text(&text, "{\"node\":\"n\",\"ready\":true,\"workers\":[");
    for (unsigned i = 0; i < count; i++) {
        buf_printf(&text,
                   "%s{\"id\":\"%s-%u\",\"state\":\"unhealthy\","
                   "\"reason\":\"%u\",\"eligible\":%s}",
                   i != 0 ? "," : "", id, i, troubles != 0 ? i % troubles : 0,
                   troubles != 0 ? "false" : "true");
    }
    buf_add_text(&text, "]}");
    buf_add(&text, "", 1);
}

Test(status, of_256_in_trouble_some_are_named_and_all_counted)
{
    unsigned named = 0;

    add_workers(256, "gpu", 256);
    (void)show(text.ptr);
    for (const char *at = shown.ptr;
         (at = strstr(at, "takes no requests")) != NULL; at++) {
        named++;
    }
    cr_assert_eq(named, STATUS_LOOKS_MAX);
    cr_assert(says("workers   256, of which 0 take requests\n"));
    cr_assert(says("  and 240 more: --json\n"));
    cr_assert(says("\ngpu-31  "));
    cr_assert(says("\nand 224 more: --json\n"));
}

Test(status, workers_with_the_same_trouble_share_a_line)
{
    add_workers(5, "gpu", 3);
    (void)show(text.ptr);
    cr_assert(says("look at\n"
                   "  gpu-0 and 1 other take no requests: unhealthy (0)\n"
                   "  gpu-1 and 1 other take no requests: unhealthy (1)\n"
                   "  gpu-2 takes no requests: unhealthy (2)\n"
                   "  kvasir doctor tries the engines; the page of the admin "
                   "port says what to do\n"));
    add_workers(256, "gpu", 1);
    (void)show(text.ptr);
    cr_assert(says("look at\n"
                   "  gpu-0 and 255 others take no requests: unhealthy (0)\n"));
}

Test(status, streams_with_the_same_trouble_share_a_line)
{
    (void)show("{\"node\":\"n\",\"ready\":true,\"workers\":[],\"streams\":["
               "{\"worker\":\"a\",\"rank\":0,\"state\":\"stale\"},"
               "{\"worker\":\"b\",\"rank\":1,\"state\":\"partial\"},"
               "{\"worker\":\"c\",\"rank\":0,\"state\":\"stale\"},"
               "{\"worker\":\"d\",\"rank\":0,\"state\":\"complete\"}],"
               "\"events\":[{\"worker\":\"a\",\"rank\":0,\"trust\":0.9},"
               "{\"worker\":\"c\",\"rank\":2,\"trust\":0.5},"
               "{\"worker\":\"d\",\"rank\":0,\"trust\":1.0}]}");
    cr_assert(says("look at\n"
                   "  a rank 0 and 1 other: not all they hold is known: stale\n"
                   "  b rank 1: not all it holds is known: partial\n"
                   "  c rank 2 and 1 other: what they are said to hold counts "
                   "50.0 % or more\n"),
              "%s", shown.ptr);
}

Test(status, a_long_name_is_cut_at_the_front_and_lines_fit)
{
    add_workers(3, "a-worker-of-a-long-name.in-a-large-company.example", 0);
    (void)show(text.ptr);
    cr_assert(says("\n..n-a-large-company.example-2 ") ||
              says("\n..-large-company.example-2 "));
    for (const char *line = shown.ptr; line != NULL;
         line = strchr(line, '\n') != NULL ? strchr(line, '\n') + 1 : NULL) {
        cr_assert_leq(strcspn(line, "\n"), COLUMNS_MAX, "%s", line);
    }
}

Test(status, nothing_of_a_node_controls_the_terminal)
{
    (void)show_with("router-1", "\\u001b[2Jr\\u009b\\u007f");
    for (const char *c = shown.ptr; *c != '\0'; c++) {
        cr_assert(*c == '\n' || (*c >= ' ' && *c <= '~'));
    }
    cr_assert(says("?[2Jr"));
}

Test(status, what_is_no_status_is_refused)
{
    static const char *const others[] = {
        "", "[]", "7", "{\"node\":\"n\"}", "{\"node\":", "{\"workers\":[]}"};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        cr_assert_eq(status_show(slice_of(others[i]), &shown), STATUS_E_BAD);
        cr_assert_eq(shown.len, 0);
    }
}
