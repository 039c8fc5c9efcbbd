#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "node/cli/top_internal.h"

#define SECOND UINT64_C(1000000)

/* A page of metrics, made of what a test says and a histogram. */
struct page {
    struct buf text;
    struct histogram times;
};

static struct top_sample before;
static struct top_sample now;
static struct page page;
static struct buf shown;

static void
begin(void)
{
    memset(&page.times, 0, sizeof(page.times));
    buf_init(&page.text, 1 << 20);
    buf_init(&shown, 1 << 20);
}

static void
end(void)
{
    buf_fini(&page.text);
    buf_fini(&shown);
}

TestSuite(top, .init = begin, .fini = end);

static void
read_page(struct top_sample *sample, const char *more, uint64_t at_us)
{
    buf_clear(&page.text);
    buf_add_text(&page.text, more);
    histogram_print(&page.times, "kvasir_route_seconds", "x", &page.text);
    top_read(sample, buf_slice(&page.text), at_us);
}

static const char *
show(const struct top_sample *first, uint32_t lines, uint32_t columns)
{
    struct top_room room = {.lines = lines, .columns = columns};

    buf_clear(&shown);
    top_show(first, &now, &room, &shown);
    buf_add(&shown, "", 1);
    cr_assert_not(shown.failed);
    return shown.ptr;
}

static bool
says(const char *text)
{
    bool found = strstr(show(&before, 0, 0), text) != NULL;

    if (!found) {
        (void)fprintf(stderr, "no \"%s\" in:\n%s", text, shown.ptr);
    }
    return found;
}

Test(top, rates_are_per_second_between_two_pages)
{
    read_page(&before,
              "kvasir_info{node=\"n1\",version=\"1.2.3\"} 1\n"
              "kvasir_uptime_seconds 100\nkvasir_requests_total 1000\n"
              "kvasir_prompt_tokens_total 5000\nkvasir_cached_tokens_total 0\n",
              10 * SECOND);
    read_page(&now,
              "kvasir_info{node=\"n1\",version=\"1.2.3\"} 1\nkvasir_ready 1\n"
              "kvasir_uptime_seconds 104\nkvasir_requests_total 1050\n"
              "kvasir_prompt_tokens_total 9000\n"
              "kvasir_cached_tokens_total 3000\n"
              "kvasir_mesh_members{state=\"alive\"} 2\n"
              "kvasir_mesh_members{state=\"dead\"} 1\n",
              14 * SECOND);
    cr_assert(says("kvasir 1.2.3  node n1  ready  up 1m44s\n"));
    cr_assert(says("requests  12.5/s  "));
    cr_assert(says("prompts   75.0% of 1000 tokens/s cached\n"));
    cr_assert(says("mesh      2 alive  - suspect  1 dead"));
}

Test(top, shares_are_of_what_was_placed_and_sessions_are_part_of_it)
{
    const char *old = "kvasir_placed_total{mode=\"affinity\"} 10\n"
                      "kvasir_placed_total{mode=\"balance\"} 10\n";

    read_page(&before, old, 0);
    read_page(&now,
              "kvasir_placed_total{mode=\"affinity\"} 15\n"
              "kvasir_placed_total{mode=\"balance\"} 15\n",
              SECOND);
    cr_assert(says("affinity 50.0%  session -\n"));
    read_page(&before,
              "kvasir_placed_total{mode=\"affinity\"} 10\n"
              "kvasir_placed_total{mode=\"balance\"} 10\n"
              "kvasir_placed_total{mode=\"session\"} 0\n",
              0);
    read_page(&now,
              "kvasir_placed_total{mode=\"affinity\"} 15\n"
              "kvasir_placed_total{mode=\"balance\"} 15\n"
              "kvasir_placed_total{mode=\"session\"} 30\n",
              SECOND);
    cr_assert(says("affinity 12.5%  session 75.0%\n"));
}

Test(top, a_worker_is_a_row_and_its_ranks_are_one)
{
    read_page(&before,
              "kvasir_requests_total 0\n"
              "kvasir_worker_requests_total{worker=\"a\"} 10\n",
              0);
    read_page(&now,
              "kvasir_requests_total 9\n"
              "kvasir_worker_eligible{worker=\"a\"} 1\n"
              "kvasir_worker_eligible{worker=\"b\"} 0\n"
              "kvasir_worker_requests_total{worker=\"a\"} 19\n"
              "kvasir_worker_requests_total{worker=\"b\"} 3\n"
              "kvasir_worker_inflight{worker=\"a\"} 2\n"
              "kvasir_worker_inflight_peers{worker=\"a\"} 1\n"
              "kvasir_worker_running{worker=\"a\"} 5\n"
              "kvasir_worker_waiting{worker=\"a\"} 1\n"
              "kvasir_mirror_worker_blocks{worker=\"a\",rank=\"0\"} 40\n"
              "kvasir_mirror_worker_blocks{worker=\"a\",rank=\"1\"} 2\n",
              2 * SECOND);
    cr_assert(says("WORKER TAKES  REQ/S"));
    cr_assert(says("\na      yes      4.5    0.0")); /* no series: none */
    cr_assert(says("      42     3")); /* and what nobody of the mesh sent */
    cr_assert(says("\nb      NO         -")); /* it was not there before */
}

Test(top, quantiles_lie_within_the_bucket_of_what_came_since)
{
    for (int i = 0; i < 1000; i++) {
        histogram_add(&page.times, 15); /* long ago */
    }
    read_page(&before, "kvasir_requests_total 0\n", 0);
    for (int i = 0; i < 98; i++) {
        histogram_add(&page.times, 150);
    }
    histogram_add(&page.times, 70 * SECOND);
    histogram_add(&page.times, 70 * SECOND);
    read_page(&now, "kvasir_requests_total 1\n", SECOND);
    cr_assert(says("route 151us / 75.00s"));
}

Test(top, histograms_of_several_labels_are_one)
{
    static const char name[] = "kvasir_time_to_first_token_seconds";

    read_page(&before, "kvasir_requests_total 0\n", 0); /* none had begun */
    buf_clear(&page.text);
    for (int i = 0; i < 50; i++) {
        histogram_add(&page.times, 150);
    }
    histogram_print_series(&page.times, name, "mode=\"a\"", &page.text);
    histogram_print_series(&page.times, name, "mode=\"b\"", &page.text);
    top_read(&now, buf_slice(&page.text), SECOND);
    cr_assert_eq(now.buckets[TOP_FIRST_TOKEN][TOP_BUCKETS - 1], 100);
    cr_assert(says("first token 150us / "));
}

Test(top, a_slowest_beyond_all_bounds_is_the_last_bound)
{
    read_page(&before, "kvasir_requests_total 0\n", 0);
    histogram_add(&page.times, 5000 * SECOND);
    read_page(&now, "kvasir_requests_total 1\n", SECOND);
    cr_assert(says("route 100.00s / 100.00s"));
}

Test(top, a_process_that_was_started_again_has_no_rates_yet)
{
    const char *first = "kvasir_info{node=\"n\"} 1\nkvasir_uptime_seconds 50\n"
                        "kvasir_requests_total 7\n";

    read_page(&before, first, 0);
    read_page(&now, first, SECOND);
    cr_assert(top_comparable(&before, &now));
    read_page(&now,
              "kvasir_info{node=\"n\"} 1\nkvasir_uptime_seconds 1\n"
              "kvasir_requests_total 9\n",
              SECOND);
    cr_assert_not(top_comparable(&before, &now));
    cr_assert(says("requests  -/s"));
    read_page(&now,
              "kvasir_info{node=\"m\"} 1\nkvasir_uptime_seconds 60\n"
              "kvasir_requests_total 9\n",
              SECOND);
    cr_assert_not(top_comparable(&before, &now));
}

Test(top, a_page_that_has_nothing_is_dashes)
{
    top_read(&now, SLICE("<html>no metrics</html>"), SECOND);
    const char *text = show(NULL, 0, 0);

    cr_assert(strstr(text, "kvasir -  node -  -  up -\n") != NULL, "%s", text);
    cr_assert(strstr(text, "route - / -") != NULL);
}

Test(top, names_cannot_move_the_cursor)
{
    read_page(&now,
              "kvasir_info{node=\"n\x1b[2J\"} 1\n"
              "kvasir_worker_eligible{worker=\"w\x07\xff\"} 1\n",
              SECOND);
    const char *text = show(NULL, 0, 0);

    cr_assert(strstr(text, "node n?[2J") != NULL, "%s", text);
    cr_assert(strstr(text, "\nw?? ") != NULL);
    for (const char *at = text; *at != '\0'; at++) {
        cr_assert(*at == '\n' || (*at >= ' ' && *at <= '~'));
    }
}

/* How many lines, and how long the longest is. */
static uint32_t
measure(const char *text, size_t *longest)
{
    uint32_t lines = 0;

    *longest = 0;
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");
        *longest = len > *longest ? len : *longest;
        text += len + 1;
        lines++;
    }
    return lines;
}

Test(top, it_stays_within_the_room)
{
    struct buf many;
    size_t longest;

    buf_init(&many, 1 << 20);
    for (unsigned i = 0; i < TOP_WORKERS_MAX + 20; i++) {
        buf_printf(&many, "kvasir_worker_eligible{worker=\"worker-%u\"} 1\n",
                   i);
    }
    top_read(&now, buf_slice(&many), SECOND);
    buf_fini(&many);
    cr_assert_eq(now.workers_count, TOP_WORKERS_MAX);
    for (uint32_t lines = 10; lines < 300; lines++) {
        uint32_t got = measure(show(NULL, lines, 40), &longest);
        cr_assert_leq(got, lines);
        cr_assert_eq(longest, 40);
    }
    cr_assert(strstr(show(NULL, 24, 0), "\n... and 1030 more\n") != NULL, "%s",
              shown.ptr);
    cr_assert(strstr(show(NULL, 0, 0), "\n... and 20 more\n") != NULL);
}

Test(top, who_takes_no_requests_is_seen_where_not_all_have_room)
{
    struct buf many;

    buf_init(&many, 1 << 20);
    for (unsigned i = 0; i < 300; i++) {
        buf_printf(&many, "kvasir_worker_eligible{worker=\"w-%03u\"} %d\n", i,
                   i != 133 && i != 299);
    }
    top_read(&now, buf_slice(&many), SECOND);
    buf_fini(&many);
    const char *out = strstr(show(NULL, 24, 0), "\nw-133");
    cr_assert(out != NULL && strstr(out, "\nw-299") < strstr(out, "\nw-000"),
              "%s", shown.ptr);
    cr_assert(strstr(out, "\nw-000") < strstr(out, "\nw-001"));
    cr_assert(strstr(out, "\n... and 286 more\n") != NULL, "%s", shown.ptr);
    out = strstr(show(NULL, 0, 0), "\nw-132");
    cr_assert(out < strstr(shown.ptr, "\nw-133"), "as the page has them");
}

/* Two nodes: each has two requests open at a, and a peer's are the other's. */
Test(top, nodes_of_a_mesh_are_one_page)
{
    static const char *const pages[] = {
        "kvasir_info{node=\"n1\",version=\"9\"} 1\nkvasir_ready 1\n"
        "kvasir_uptime_seconds 50\nkvasir_gossip_streams 4\n"
        "kvasir_requests_total{code=\"200\",reason=\"answered\"} 10\n"
        "kvasir_mesh_members{state=\"alive\"} 2\n"
        "kvasir_worker_eligible{worker=\"a\"} 1\n"
        "kvasir_worker_inflight{worker=\"a\"} 2\n"
        "kvasir_worker_inflight_peers{worker=\"a\"} 3\n"
        "kvasir_worker_running{worker=\"a\"} 5\n",
        "kvasir_info{node=\"n2\",version=\"9\"} 1\nkvasir_ready 0\n"
        "kvasir_uptime_seconds 20\nkvasir_gossip_streams 4\n"
        "kvasir_requests_total{code=\"200\",reason=\"answered\"} 7\n"
        "kvasir_requests_total{code=\"503\",reason=\"no_worker\"} 1\n"
        "kvasir_mesh_members{state=\"alive\"} 2\n"
        "kvasir_worker_eligible{worker=\"a\"} 0\n"
        "kvasir_worker_inflight{worker=\"a\"} 3\n"
        "kvasir_worker_inflight_peers{worker=\"a\"} 2\n"
        "kvasir_worker_running{worker=\"a\"} 4\n"
        "kvasir_worker_running{worker=\"b\"} 1\n"};
    static struct top_sample all;

    memset(&all, 0, sizeof(all));
    for (unsigned i = 0; i < 2; i++) {
        read_page(&now, pages[i], SECOND);
        top_join(&all, &now);
    }
    cr_assert_eq(all.number[TOP_REQUESTS].value, 18);
    cr_assert_eq(all.number[TOP_NO_WORKER].value, 1);
    cr_assert_eq(all.number[TOP_UPTIME].value, 20);
    cr_assert_eq(all.number[TOP_READY].value, 0);
    cr_assert_eq(all.number[TOP_STREAMS].value, 4);
    cr_assert_eq(all.members[TOP_ALIVE].value, 2);
    cr_assert_eq(all.workers_count, 2);
    cr_assert_eq(all.workers[0].number[TOP_MINE].value, 5);
    cr_assert_not(all.workers[0].number[TOP_PEERS].known);
    cr_assert_eq(all.workers[0].number[TOP_RUNNING].value, 5);
    cr_assert_eq(all.workers[0].number[TOP_ELIGIBLE].value, 1);
    cr_assert_eq(all.buckets_count[TOP_ROUTE], 2 * TOP_BUCKETS);
}

Test(top, the_other_living_nodes_are_asked_at_their_hosts_and_the_same_port)
{
    static struct top_nodes nodes;
    struct slice mesh = SLICE(
        "{\"members\":[{\"name\":\"n1\",\"state\":\"alive\",\"self\":true,"
        "\"address\":\"10.0.0.1:7946\"},{\"name\":\"n2\",\"state\":\"alive\","
        "\"address\":\"10.0.0.2:7946\"},{\"name\":\"n3\",\"state\":\"dead\","
        "\"address\":\"10.0.0.3:7946\"},{\"name\":\"n4\",\"state\":\"alive\","
        "\"address\":\"[fd00::4]:7946\"},{\"name\":\"n5\",\"state\":\"alive\","
        "\"address\":\"none\"}]}");

    cr_assert(top_nodes_read(&nodes, mesh, SLICE("localhost:9080")));
    cr_assert_eq(nodes.count, 2);
    cr_assert_str_eq(nodes.node[0].name, "n2");
    cr_assert_str_eq(nodes.node[0].address, "10.0.0.2:9080");
    cr_assert_str_eq(nodes.node[1].address, "[fd00::4]:9080");
    cr_assert(top_nodes_read(&nodes, mesh, SLICE("https://n1.example:9443")));
    cr_assert_str_eq(nodes.node[0].address, "https://10.0.0.2:9443");
    cr_assert_not(top_nodes_read(&nodes, SLICE("[]"), SLICE("a:1")));
    cr_assert_not(top_nodes_read(&nodes, SLICE("no json"), SLICE("a:1")));
}
