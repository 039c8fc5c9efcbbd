#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/base/role.h"
#include "node/route/route.h"
#include "node/view/expectations.h"

static const char *more_paths = "";

static enum route_kind
kind_of(const char *line, const char *headers)
{
    static const struct http_limits limits = {
        .head_bytes_max = 4096, .target_bytes_max = 1024, .headers_max = 32};
    static struct http_head head;
    char text[1024];

    (void)snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: h\r\n%s\r\n", line,
                   headers);
    cr_assert_eq(http_head_parse_request(text, strlen(text), &limits, &head),
                 0);
    return route_kind_of(&head, more_paths);
}

#define JSON "Content-Type: application/json\r\nContent-Length: 2\r\n"

Test(node_route, prompts_are_posts_of_json)
{
    cr_assert_eq(kind_of("POST /v1/chat/completions", JSON), ROUTE_PROMPT);
    cr_assert_eq(kind_of("POST /v1/chat/completions?x=1", JSON), ROUTE_PROMPT);
    cr_assert_eq(kind_of("POST /v1/decisions", JSON), ROUTE_PROMPT);
    cr_assert_eq(kind_of("POST /v1/completions",
                         "Content-Type: application/json; charset=utf-8\r\n"
                         "Content-Length: 2\r\n"),
                 ROUTE_PROMPT);
    cr_assert_eq(kind_of("POST /v1/completions",
                         "Content-Type: application/json ; charset=utf-8\r\n"
                         "Content-Length: 2\r\n"),
                 ROUTE_PROMPT);
    cr_assert_eq(kind_of("POST /v1/completions",
                         "Content-Type: application/x-www-form-urlencoded\r\n"
                         "Content-Length: 2\r\n"),
                 ROUTE_PROMPT);
    cr_assert_eq(kind_of("POST /tokenize", "Content-Length: 2\r\n"),
                 ROUTE_PROMPT);
    cr_assert_eq(kind_of("POST /v1/completions", "Content-Type: text/plain\r\n"
                                                 "Content-Length: 2\r\n"),
                 ROUTE_PROMPT);
    cr_assert_eq(kind_of("POST /rerank", "Content-Type: text/x+JSON; a=b\r\n"
                                         "Content-Length: 2\r\n"),
                 ROUTE_PROMPT);
}

Test(node_route, other_bodies_and_lookups_go_by_load_alone)
{
    cr_assert_eq(kind_of("POST /v1/audio/transcriptions",
                         "Content-Type: multipart/form-data; boundary=x\r\n"
                         "Content-Length: 2\r\n"),
                 ROUTE_PLAIN);
    cr_assert_eq(kind_of("POST /v1/completions",
                         "Content-Type: multipart/form-data; boundary=x\r\n"
                         "Content-Length: 2\r\n"),
                 ROUTE_PLAIN);
    cr_assert_eq(kind_of("POST /rerank", "Content-Type: application/jsonl\r\n"
                                         "Content-Length: 2\r\n"),
                 ROUTE_PLAIN);
    cr_assert_eq(kind_of("GET /v1/responses/abc", ""), ROUTE_PLAIN);
    cr_assert_eq(kind_of("POST /v1/responses/abc/cancel", ""), ROUTE_PLAIN);
}

Test(node_route, the_node_answers_for_itself)
{
    cr_assert_eq(kind_of("GET /health", ""), ROUTE_LOCAL);
    cr_assert_eq(kind_of("GET /ready", ""), ROUTE_LOCAL);
    cr_assert_eq(kind_of("GET /v1/models", ""), ROUTE_LOCAL);
    cr_assert_eq(kind_of("GET /v1/models/org/name", ""), ROUTE_LOCAL);
}

Test(node_route, what_would_change_an_engine_is_not_passed_on)
{
    cr_assert_eq(kind_of("POST /reset_prefix_cache", ""), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("POST /flush_cache", ""), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("GET /metrics", ""), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("POST /chaos", JSON), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("GET /", ""), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("GET /v1", ""), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("POST /v1/../flush_cache", JSON), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("POST /v1/%2e%2e/flush_cache", JSON), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("POST /v1/load_lora_adapter", JSON), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("POST /v1/unload_lora_adapter", JSON), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("POST /v1/some/new/thing", JSON), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("POST /v1/chat/completions/", JSON), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("POST //v1/chat/completions", JSON), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("GET /v1/responses/../load_lora_adapter", ""),
                 ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("GET /v1/responses/%2e%2e/x", ""), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("GET /v1/responses//x", ""), ROUTE_UNKNOWN);
}

Test(node_route, further_paths_are_forwarded_by_name_or_by_their_beginning)
{
    more_paths = "/v1/load_lora_adapter /v1/files/*";
    cr_assert_eq(kind_of("POST /v1/load_lora_adapter", JSON), ROUTE_PROMPT);
    cr_assert_eq(kind_of("GET /v1/files/7", ""), ROUTE_PLAIN);
    cr_assert_eq(kind_of("GET /v1/files/", ""), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("GET /v1/files", ""), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("GET /v1/files/../x", ""), ROUTE_UNKNOWN);
    cr_assert_eq(kind_of("POST /v1/unload_lora_adapter", JSON), ROUTE_UNKNOWN);
}

static bool
clears(const char *line)
{
    static const struct http_limits limits = {
        .head_bytes_max = 4096, .target_bytes_max = 1024, .headers_max = 32};
    static struct http_head head;
    char text[256];

    (void)snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: h\r\n\r\n", line);
    cr_assert_eq(http_head_parse_request(text, strlen(text), &limits, &head),
                 0);
    return route_clears_cache(&head);
}

Test(node_route, some_paths_clear_an_engines_cache)
{
    cr_assert(clears("POST /reset_prefix_cache?reset_external=true"));
    cr_assert(clears("POST /sleep?level=1"));
    cr_assert(clears("GET /flush_cache"));
    cr_assert(clears("POST /release_memory_occupation"));
    cr_assert(clears("POST /release_kv_cache_memory"));
    cr_assert(clears("POST /update_weights_from_disk"));
    cr_assert(!clears("POST /update_weights"));
    cr_assert(clears("POST /pause"));
    cr_assert(clears("POST /pause?mode=wait&clear_cache=true"));
    cr_assert(!clears("POST /pause?mode=keep"));
    cr_assert(!clears("POST /pause?mode=abort&clear_cache=false"));
    cr_assert(!clears("POST /pause?clear_cache=0"));
    cr_assert(!clears("DELETE /flush_cache"));
    cr_assert(!clears("POST /wake_up"));
    cr_assert(!clears("POST /v1/completions"));
}

static enum scan_api
api_of(const char *line)
{
    static const struct http_limits limits = {
        .head_bytes_max = 4096, .target_bytes_max = 1024, .headers_max = 32};
    static struct http_head head;
    char text[256];

    (void)snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: h\r\n\r\n", line);
    cr_assert_eq(http_head_parse_request(text, strlen(text), &limits, &head),
                 0);
    return route_api(&head);
}

Test(node_route, six_apis_have_tokens)
{
    cr_assert_eq(api_of("POST /v1/chat/completions"), SCAN_API_CHAT);
    cr_assert_eq(api_of("POST /v1/completions?x=1"), SCAN_API_TEXT);
    cr_assert_eq(api_of("POST /v1/responses"), SCAN_API_RESPONSES);
    cr_assert_eq(api_of("POST /v1/messages"), SCAN_API_MESSAGES);
    cr_assert_eq(api_of("POST /v1/messages/count_tokens"), SCAN_API_OTHER);
    cr_assert_eq(api_of("POST /v1/embeddings"), SCAN_API_EMBEDDINGS);
    cr_assert_eq(api_of("POST /classify"), SCAN_API_EMBEDDINGS);
    cr_assert_eq(api_of("POST /pooling"), SCAN_API_POOLING);
    cr_assert_eq(api_of("POST /rerank"), SCAN_API_OTHER);
    cr_assert_eq(api_of("POST /tokenize"), SCAN_API_OTHER);
}

/* Two ranks of worker 3 whose mirror is slots 0 and 1, in blocks of 4. */
#define WORKER 3U
#define BLOCK  4U
#define TOKENS 401U

struct rig {
    struct route_scratch scratch;
    struct qsbr qsbr;
    struct qsbr_reader *reader;
    struct radix *belief;
    struct mirror *mirror;
    struct expectations *expectations;
    struct mirror_view mirrors;
    struct fleet_models models;
    struct fleet_worker worker;
    struct fleet_view view;
    struct fleet_board *board;
    struct gauge rank_inflight[WORKERS_MAX];
    struct gauge rank_peers[WORKERS_MAX];
    struct elect_config elect;
    struct route_world world;
    struct rng rng;
};

static struct rig rig;

static void
open_mirror(void)
{
    role_is_control();
    struct mirror_limits limits = {.bytes_max = (size_t)64 << 20};
    struct expectations_limits expected = {.bytes_max = (size_t)16 << 20,
                                           .ttl_ms = 10};

    cr_assert_eq(mirror_new(&rig.mirror, &limits, &rig.qsbr), 0);
    cr_assert_eq(expectations_new(&rig.expectations, &expected, &rig.qsbr), 0);
    rig.mirrors.groups_count = 1;
    rig.mirrors.groups[0].grain = BLOCK;
    rig.mirrors.ranks[WORKER] = 2;
    for (uint16_t rank = 0; rank < 2; rank++) {
        uint32_t slot;
        cr_assert_eq(mirror_open(rig.mirror, &slot), 0);
        cr_assert(slot == rank &&
                  expectations_open(rig.expectations, slot) == 0);
        worker_set_add(&rig.mirrors.groups[0].slots, slot);
        worker_set_add(&rig.mirrors.workers, WORKER);
        rig.mirrors.owner[slot] = WORKER;
        rig.mirrors.rank[slot] = rank;
        rig.mirrors.trust_permille[slot] = 1000;
    }
}

static void
open_fleet(void)
{
    rig.worker = (struct fleet_worker){.slot = WORKER, .generation = 1};
    rig.view.models = &rig.models;
    rig.view.worker[WORKER] = &rig.worker;
    worker_set_add(&rig.view.present, WORKER);
    worker_set_add(&rig.view.eligible, WORKER);
    worker_set_add(&rig.view.any_model, WORKER);
    rig.board = aligned_alloc(64, (sizeof(*rig.board) + 63) / 64 * 64);
    cr_assert_not_null(rig.board);
    memset(rig.board, 0, sizeof(*rig.board));
}

static void
open_rig(void)
{
    static struct config config;
    struct radix_limits belief = {
        .bytes_max = (size_t)16 << 20, .namespaces_max = 8, .depth_max = 1024};

    memset(&rig, 0, sizeof(rig));
    config.limits.json_depth_max = 16;
    config.limits.spans_max = 64;
    config.belief.block_bytes = 64;
    config.belief.depth_max = 1024;
    cr_assert_eq(route_scratch_init(&rig.scratch, &config), 0);
    qsbr_init(&rig.qsbr);
    rig.reader = qsbr_register(&rig.qsbr);
    cr_assert_eq(radix_new(&rig.belief, &belief, &rig.qsbr), 0);
    open_mirror();
    open_fleet();
    rng_init(&rig.rng, 1);
    rig.elect = ELECT_CONFIG_DEFAULT;
    rig.world = (struct route_world){
        .elect = &rig.elect,
        .view = &rig.view,
        .board = rig.board,
        .belief = rig.belief,
        .rank_inflight = rig.rank_inflight,
        .rank_peers = rig.rank_peers,
        .tokens = {.mirror = rig.mirror,
                   .expected = expectations_index(rig.expectations),
                   .view = &rig.mirrors,
                   .weights = {.permille = {1000, 800, 500, 300}}},
    };
}

static void
close_rig(void)
{
    route_scratch_fini(&rig.scratch);
    free(rig.board);
    expectations_free(rig.expectations);
    mirror_free(rig.mirror);
    radix_free(rig.belief);
    qsbr_fini(&rig.qsbr);
}

TestSuite(node_route_rig, .init = open_rig, .fini = close_rig);

static bool
goes_by_tokens(const char *body, enum scan_api api)
{
    cr_assert_eq(route_read(&rig.scratch, slice_of(body), api), 0);
    return route_wants_tokens(&rig.scratch, &rig.world);
}

#define CHAT(content) \
    "{\"messages\":[{\"role\":\"user\",\"content\":" content "}]}"

Test(node_route_rig, chats_of_any_parts_go_by_tokens)
{
    cr_assert(goes_by_tokens(CHAT("\"hi\""), SCAN_API_GUESSED));
    cr_assert(goes_by_tokens(CHAT("[{\"type\":\"text\",\"text\":\"hi\"}]"),
                             SCAN_API_GUESSED));
    cr_assert(goes_by_tokens(CHAT("[{\"type\":\"image_url\",\"image_url\":"
                                  "{\"url\":\"http://a/1\"}}]"),
                             SCAN_API_GUESSED));
    cr_assert(
        goes_by_tokens(CHAT("[{\"type\":\"image_embeds\",\"image_embeds\":"
                            "\"AAAA\"}]"),
                       SCAN_API_GUESSED));
    cr_assert(goes_by_tokens("{\"prompt\":\"hi\"}", SCAN_API_GUESSED));
    cr_assert(goes_by_tokens("{\"prompt\":[1,2]}", SCAN_API_GUESSED));
}

static uint64_t
root_with_salt(size_t len)
{
    static char body[20000];
    int at = snprintf(body, sizeof(body), "{\"prompt\":\"hi\"");

    if (len > 0) {
        at += snprintf(body + at, sizeof(body) - (size_t)at,
                       ",\"cache_salt\":\"%0*u\"", (int)len, 7U);
    }
    (void)snprintf(body + at, sizeof(body) - (size_t)at, "}");
    cr_assert_eq(route_read(&rig.scratch, slice_of(body), SCAN_API_GUESSED), 0);
    return route_token_root(&rig.scratch, body, &rig.view);
}

static uint64_t
root_of(const char *body)
{
    cr_assert_eq(route_read(&rig.scratch, slice_of(body), SCAN_API_GUESSED), 0);
    return route_token_root(&rig.scratch, body, &rig.view);
}

/* vLLM takes 1,024 characters of up to four bytes, SGLang any number. */
Test(node_route_rig, a_salt_sets_prompts_apart_however_long_it_is)
{
    uint64_t none = root_with_salt(0);

    cr_assert_neq(root_with_salt(1), none);
    cr_assert_neq(root_with_salt(1025), none);
    cr_assert_neq(root_with_salt(1025), root_with_salt(1024));
    cr_assert_eq(root_of("{\"prompt\":\"hi\",\"cache_salt\":\"\\u00e9\"}"),
                 root_of("{\"prompt\":\"hi\",\"cache_salt\":\"\u00e9\"}"));
}

Test(node_route_rig, a_long_salt_that_is_escaped_is_the_same_salt)
{
    static char body[16384];
    char long_salt[1025];
    size_t at = 0;

    memset(long_salt, 'a', sizeof(long_salt) - 1);
    long_salt[sizeof(long_salt) - 1] = '\0';
    at += (size_t)snprintf(body, sizeof(body),
                           "{\"prompt\":\"hi\",\"cache_salt\":\"");
    for (size_t i = 0; long_salt[i] != '\0'; i++) {
        at += (size_t)snprintf(body + at, sizeof(body) - at, "\\u0061");
    }
    (void)snprintf(body + at, sizeof(body) - at, "\"}");
    cr_assert_eq(root_of(body),
                 key_token_root((struct slice){0}, slice_of(long_salt)));
}

/* Of salts that no engine takes, too. */
Test(node_route_rig, an_isolated_tenants_salts_are_apart_however_long_they_are)
{
    static const struct keys_isolation isolation = {.strict = true};
    static const size_t lens[] = {0, 1, 12288, 12289, 16000};
    uint64_t roots[5];

    rig.scratch.isolation = &isolation;
    for (size_t i = 0; i < 5; i++) {
        roots[i] = root_with_salt(lens[i]);
        for (size_t j = 0; j < i; j++) {
            cr_assert_neq(roots[j], roots[i], "%zu and %zu", lens[j], lens[i]);
        }
    }
}

Test(node_route_rig, sglang_is_told_an_adapter_beside_the_model)
{
    struct slice no = {.ptr = NULL, .len = 0};

    cr_assert_eq(root_of("{\"prompt\":\"hi\",\"lora_path\":\"a\\u0062\"}"),
                 key_token_root(SLICE("ab"), no));
    cr_assert_eq(root_of("{\"prompt\":\"hi\",\"lora_path\":null}"),
                 key_token_root(no, no));
    cr_assert(goes_by_tokens("{\"prompt\":\"hi\",\"lora_path\":\"ab\"}",
                             SCAN_API_TEXT));
}

Test(node_route_rig, an_adapter_in_the_models_name_goes_before_one_beside_it)
{
    static const struct fleet_model list[] = {
        {.name = {.ptr = "b:a", .len = 3}, .adapter = true, .own_at = 2},
        {.name = {.ptr = "s", .len = 1}, .adapter = true, .own_at = 1},
        {.name = {.ptr = "v", .len = 1}, .adapter = true},
    };
    struct slice no = {.ptr = NULL, .len = 0};

    rig.models = (struct fleet_models){.count = 3, .model = list};
    cr_assert_eq(root_of("{\"model\":\"b:a\",\"prompt\":\"hi\","
                         "\"lora_path\":\"x\"}"),
                 key_token_root(SLICE("a"), no));
    cr_assert_eq(root_of("{\"model\":\"v\",\"prompt\":\"hi\","
                         "\"lora_path\":\"x\"}"),
                 key_token_root(SLICE("v"), no), "vLLM reads none");
    cr_assert_eq(root_of("{\"model\":\"s\",\"prompt\":\"hi\","
                         "\"lora_path\":\"x\"}"),
                 key_token_root(SLICE("x"), no));
    cr_assert_eq(root_of("{\"model\":\"s\",\"prompt\":\"hi\"}"),
                 key_token_root(no, no), "SGLang answers with the base model");
}

Test(node_route_rig, what_is_kept_apart_by_what_no_event_tells_goes_by_text)
{
    cr_assert(!goes_by_tokens("{\"prompt\":\"hi\",\"extra_key\":\"k\"}",
                              SCAN_API_TEXT));
    cr_assert(!goes_by_tokens("{\"prompt\":[\"a\"],\"extra_key\":[\"k\"]}",
                              SCAN_API_TEXT));
    cr_assert(!goes_by_tokens("{\"prompt\":[\"a\"],\"cache_salt\":[\"k\"]}",
                              SCAN_API_TEXT));
    cr_assert(!goes_by_tokens("{\"prompt\":[\"a\"],\"lora_path\":[\"k\"]}",
                              SCAN_API_TEXT));
    cr_assert(!goes_by_tokens("{\"prompt\":\"hi\",\"lora_request\":"
                              "{\"lora_name\":\"a\",\"lora_int_id\":1}}",
                              SCAN_API_TEXT));
    cr_assert(!goes_by_tokens("{\"messages\":[{\"role\":\"user\",\"content\":"
                              "\"a\"}],\"input_ids\":[1,2]}",
                              SCAN_API_CHAT));
    cr_assert(!goes_by_tokens("{\"prompt\":\"hi\",\"session_params\":"
                              "{\"id\":\"s\"}}",
                              SCAN_API_TEXT));
    cr_assert(goes_by_tokens("{\"prompt\":\"hi\",\"extra_key\":\"\"}",
                             SCAN_API_TEXT));
    cr_assert(goes_by_tokens("{\"prompt\":\"hi\",\"extra_key\":null}",
                             SCAN_API_TEXT));
}

Test(node_route_rig, what_no_engine_renders_goes_by_text)
{
    cr_assert(goes_by_tokens("{\"prompt\":[\"a\"]}", SCAN_API_GUESSED));
    cr_assert(!goes_by_tokens("{\"input\":\"hi\"}", SCAN_API_TEXT));
    cr_assert(!goes_by_tokens(CHAT("\"hi\""), SCAN_API_OTHER));
    cr_assert(!goes_by_tokens("{\"prompt\":[1,2]}", SCAN_API_OTHER));
    cr_assert(!goes_by_tokens("{\"input\":[1,2]}", SCAN_API_RESPONSES));
    cr_assert(!goes_by_tokens(CHAT("\"hi\""), SCAN_API_RESPONSES));
    cr_assert(goes_by_tokens("{\"input\":\"hi\"}", SCAN_API_RESPONSES));
    cr_assert(goes_by_tokens(CHAT("\"hi\""), SCAN_API_MESSAGES));
}

Test(node_route_rig, an_embedding_of_one_text_goes_by_tokens)
{
    cr_assert(goes_by_tokens("{\"input\":\"hi\"}", SCAN_API_EMBEDDINGS));
    cr_assert(goes_by_tokens("{\"input\":[\"hi\"]}", SCAN_API_EMBEDDINGS));
    cr_assert(goes_by_tokens("{\"input\":[1,2]}", SCAN_API_EMBEDDINGS));
    cr_assert(!goes_by_tokens("{\"prompt\":\"hi\"}", SCAN_API_EMBEDDINGS));
    cr_assert(!goes_by_tokens("{\"input\":\"hi\",\"truncate_prompt_tokens\":9}",
                              SCAN_API_EMBEDDINGS));
    cr_assert(!goes_by_tokens(CHAT("\"hi\""), SCAN_API_EMBEDDINGS));
}

Test(node_route_rig, of_several_prompts_the_first_goes_by_its_tokens)
{
    cr_assert(goes_by_tokens("{\"input\":[[1,2],[3]]}", SCAN_API_EMBEDDINGS));
    cr_assert(
        goes_by_tokens("{\"input\":[\"hi\",\"ho\"]}", SCAN_API_EMBEDDINGS));
    cr_assert(goes_by_tokens("{\"prompt\":[\"hi\",\"ho\"]}", SCAN_API_TEXT));
    cr_assert(goes_by_tokens("{\"prompt\":[[1,2],[3]]}", SCAN_API_TEXT));
}

Test(node_route_rig, what_goes_on_from_an_engines_memory_goes_by_text)
{
    cr_assert(!goes_by_tokens(
        "{\"input\":\"hi\",\"previous_response_id\":\"resp_1\"}",
        SCAN_API_RESPONSES));
    cr_assert(!goes_by_tokens("{\"input\":\"hi\",\"conversation\":\"c\"}",
                              SCAN_API_RESPONSES));
    cr_assert(goes_by_tokens("{\"input\":\"hi\",\"conversation\":null}",
                             SCAN_API_RESPONSES));
}

/* Blocks of text that workers 0 to 2 are taken to hold. */
static void
look_up_text(uint32_t depth[3])
{
    struct elect_input input = {.match = NULL};
    struct worker_set asked;

    worker_set_clear(&asked);
    for (uint32_t slot = 0; slot < 3; slot++) {
        worker_set_add(&asked, slot);
    }
    qsbr_online(&rig.qsbr, rig.reader);
    route_look_up(&rig.scratch, &rig.world, &asked, &input);
    qsbr_offline(rig.reader);
    for (uint32_t slot = 0; slot < 3; slot++) {
        depth[slot] = worker_set_has(&input.match->workers, slot)
                          ? input.match->depth[slot]
                          : 0;
    }
}

Test(node_route_rig, text_on_its_way_counts_from_where_belief_ends)
{
    role_is_control();
    struct expectations_limits limits = {.bytes_max = (size_t)16 << 20,
                                         .ttl_ms = 10};
    struct expectations *text;
    uint64_t keys[6] = {1, 2, 3, 4, 5, 6};
    uint32_t depth[3];

    cr_assert_eq(expectations_new(&text, &limits, &rig.qsbr), 0);
    rig.world.expected = text;
    rig.scratch.blocks.root = 9;
    rig.scratch.blocks.count = 6;
    memcpy(rig.scratch.blocks.keys, keys, sizeof keys);
    for (uint32_t slot = 0; slot < 3; slot++) {
        cr_assert_eq(radix_worker_add(rig.belief, slot, 100, RADIX_LRU), 0);
        cr_assert(expectations_admit(text, slot));
    }
    cr_assert_eq(radix_insert(rig.belief, 9, keys, 2, 0, 0, 1), 0);
    cr_assert_eq(radix_insert(rig.belief, 9, keys, 3, 2, 0, 1), 0);
    expectations_add(text, 0, keys + 2, 3, 1); /* goes on */
    expectations_add(text, 1, keys, 1, 1);     /* begins */
    expectations_add(text, 2, keys + 4, 2, 1); /* after a hole */
    look_up_text(depth);
    cr_assert_eq(depth[0], 5);
    cr_assert_eq(depth[1], 1);
    cr_assert_eq(depth[2], 3);
    cr_assert_eq(rig.scratch.match.best, 5);
    expectations_take_back(text, 0, keys + 2, 3);
    look_up_text(depth);
    cr_assert_eq(depth[0], 2);
    expectations_free(text);
}

/* The prompt 0, 1, 2, ... TOKENS long. */
static void
ask(void)
{
    uint32_t ids[TOKENS];

    for (uint32_t i = 0; i < TOKENS; i++) {
        ids[i] = i;
    }
    cr_assert_eq(
        route_read(&rig.scratch, SLICE("{\"prompt\":[1,2]}"), SCAN_API_GUESSED),
        0);
    token_match_take(&rig.scratch.tokens, &rig.mirrors, 7,
                     &(struct token_text){.tokens = ids, .count = TOKENS});
}

static void
hold(uint32_t slot, uint32_t count)
{
    const struct token_blocks *blocks =
        token_match_blocks(&rig.scratch.tokens, BLOCK);
    uint64_t words[1024] = {event_op(EVENT_STORE, TIER_DEVICE, count)};

    memcpy(words + 1, blocks->keys, count * sizeof(*words));
    cr_assert_eq(mirror_apply(rig.mirror, slot, words, count + 1, 0), 0);
}

static struct route_choice
elect(void)
{
    role_is_lane();
    struct route_choice choice = {.exact = false};
    struct worker_set tried;

    worker_set_clear(&tried);
    qsbr_online(&rig.qsbr, rig.reader);
    cr_assert_eq(
        route_elect(&rig.scratch, &rig.world, &tried, &rig.rng, &choice), 0);
    qsbr_offline(rig.reader);
    fleet_lease_leave(&choice.lease, rig.board);
    return choice;
}

/* A bit for each rank that was named, in many elections. */
static unsigned
ranks_named(void)
{
    unsigned named = 0;

    for (int i = 0; i < 64; i++) {
        struct route_choice choice = elect();
        named |= choice.ranked ? 1U << choice.best.rank : 4U;
        cr_assert_eq(choice.placed, choice.ranked);
    }
    return named;
}

Test(node_route_rig, the_rank_that_holds_the_prompt_is_named)
{
    ask();
    hold(1, 60);
    struct route_choice choice = elect();
    cr_assert(choice.ranked && choice.placed && choice.best.rank == 1);
    cr_assert_eq(choice.best.tokens, 60 * BLOCK);
    cr_assert_eq(choice.elect.overlap, 60 * BLOCK);
    cr_assert_eq(ranks_named(), 2);
}

Test(node_route_rig, what_a_rank_that_is_spared_holds_was_possible)
{
    ask();
    hold(1, 60);
    gauge_set(&rig.rank_inflight[1], 1000);
    rig.mirrors.trust_permille[1] = 500; /* nor does what it is worth count */
    struct route_choice choice = elect();
    cr_assert(choice.ranked && choice.best.rank == 0);
    cr_assert_eq(choice.elect.overlap, 0);
    cr_assert_eq(choice.elect.most, 60 * BLOCK);
}

Test(node_route_rig, ranks_that_hold_the_same_share_the_requests)
{
    ask();
    hold(0, 60);
    hold(1, 60);
    cr_assert_eq(ranks_named(), 3);
}

Test(node_route_rig, a_short_common_beginning_keeps_no_rank_busy)
{
    ask();
    hold(0, 10);
    cr_assert_eq(ranks_named(), 1);
    gauge_set(&rig.rank_inflight[0], 1);
    cr_assert_eq(ranks_named(), 2);
}

Test(node_route_rig, a_rank_with_far_more_to_do_is_spared)
{
    ask();
    hold(0, 60);
    gauge_set(&rig.rank_inflight[0], 33); /* half of balance_abs, and one */
    cr_assert_eq(ranks_named(), 2);
    gauge_set(&rig.rank_inflight[0], 32);
    cr_assert_eq(ranks_named(), 1);
}

Test(node_route_rig, the_worker_chooses_while_a_rank_was_not_heard_of)
{
    rig.mirrors.ranks[WORKER] = 3;
    ask();
    cr_assert_eq(ranks_named(), 4);
    hold(0, 60);
    cr_assert_eq(ranks_named(), 1);
}

/* What comes of an election among who is left after these were tried. */
static int
elected(const struct worker_set *tried)
{
    role_is_lane();
    struct route_choice choice = {.elect = {.worker = WORKER_NONE}};
    int outcome =
        route_read(&rig.scratch, SLICE("{\"prompt\":\"p\"}"), SCAN_API_OTHER);

    cr_assert_eq(outcome, 0);
    outcome = route_elect(&rig.scratch, &rig.world, tried, &rig.rng, &choice);
    if (outcome == 0) {
        fleet_lease_leave(&choice.lease, rig.board);
    }
    return outcome == 0 ? (int)choice.elect.worker : -1;
}

Test(node_route_rig, who_is_doubted_is_chosen_where_nobody_else_is_left)
{
    static struct fleet_worker other = {.slot = WORKER + 1, .generation = 1};
    struct worker_set tried;

    worker_set_clear(&tried);
    rig.view.worker[WORKER + 1] = &other;
    worker_set_add(&rig.view.present, WORKER + 1);
    worker_set_add(&rig.view.any_model, WORKER + 1);
    worker_set_add(&rig.view.suspect, WORKER + 1);
    cr_assert_eq(elected(&tried), WORKER);
    worker_set_add(&tried, WORKER);
    cr_assert_eq(elected(&tried), WORKER + 1);
    worker_set_add(&tried, WORKER + 1);
    cr_assert_eq(elected(&tried), -1);
    worker_set_clear(&tried);
    worker_set_remove(&rig.view.eligible, WORKER);
    cr_assert_eq(elected(&tried), WORKER + 1);
}

Test(node_route_rig, prompts_that_wait_at_a_worker_count_against_it)
{
    static struct fleet_worker other = {.slot = WORKER + 1, .generation = 1};
    struct worker_set tried;

    worker_set_clear(&tried);
    rig.view.worker[WORKER + 1] = &other;
    worker_set_add(&rig.view.present, WORKER + 1);
    worker_set_add(&rig.view.eligible, WORKER + 1);
    worker_set_add(&rig.view.any_model, WORKER + 1);
    for (uint32_t busy = WORKER; busy <= WORKER + 1; busy++) {
        gauge_add(&rig.board->queued_tokens[busy], 50000);
        for (int times = 0; times < 20; times++) {
            cr_assert_neq(elected(&tried), (int)busy);
        }
        gauge_add(&rig.board->queued_tokens[busy], -50000);
    }
}

Test(node_route_rig, the_longest_prefix_that_is_held_says_how_hot_it_is)
{
    role_is_control();
    struct decided *decided;
    struct elect_input input;
    struct worker_set tried;
    uint64_t kept[TOKENS];

    worker_set_clear(&tried);
    cr_assert_eq(decided_new(&decided, (size_t)1 << 20, TOKENS, &rig.qsbr), 0);
    rig.world.tokens.decided = decided;
    ask();
    hold(0, 60);
    const struct token_blocks *blocks =
        token_match_blocks(&rig.scratch.tokens, BLOCK);
    uint32_t count = decided_keys(blocks->keys, 60, BLOCK, kept);
    cr_assert_gt(count, 0);
    kept[count] = kept[count - 1];
    for (int i = 0; i < 5; i++) {
        decided_add(decided, 0, kept, count + 1, 1000);
    }
    qsbr_online(&rig.qsbr, rig.reader);
    cr_assert_eq(route_input(&rig.scratch, &rig.world, &tried, &input), 0);
    qsbr_offline(rig.reader);
    cr_assert_eq(input.heat_milli, 5000);
    cr_assert_eq(rig.scratch.tokens.longest, kept[count - 1]);
    rig.world.tokens.decided = NULL;
    decided_free(decided);
}

Test(node_route_rig, another_request_does_not_inherit_tokens)
{
    ask();
    cr_assert_gt(rig.scratch.tokens.prompt.groups_count, 0);
    cr_assert(goes_by_tokens(CHAT("\"hi\""), SCAN_API_GUESSED));
    cr_assert_eq(rig.scratch.tokens.prompt.groups_count, 0);
}
