/* Names of conversations, and what is remembered under them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/index.h"
#include "node/tokens/token_cache.h"
#include "tests/unit/failing_alloc.h"

#define ROOT      77
#define SPANS_MAX 8192

static struct conversation
cut_at(const char *body, uint64_t root, uint32_t spans_max)
{
    static struct scan_span spans[SPANS_MAX];
    static struct conversation conversation;
    struct scan_limits limits = {.depth_max = 64, .spans_max = spans_max};
    struct scan scan = {.spans = spans};

    cr_assert_eq(scan_body(body, strlen(body), &limits, &scan), 0, "%s",
                 scan.fault);
    conversation_name(&conversation, body, &scan, root);
    return conversation;
}

static struct conversation
cut(const char *body)
{
    return cut_at(body, ROOT, SPANS_MAX);
}

static uint64_t
whole_of(const char *body)
{
    struct conversation c = cut(body);

    cr_assert_neq(c.count, 0, "%s", body);
    return c.keys[c.count - 1];
}

#define SAY(role, text) "{\"role\":\"" role "\",\"content\":" text "}"
#define CHAT(messages)  "{\"model\":\"m\",\"messages\":[" messages "]}"
#define WITH(member)    "{\"model\":\"m\",\"messages\":[],\"prompt\":1," member "}"

static void
differ(const char *a, const char *b)
{
    cr_assert_neq(whole_of(a), whole_of(b), "%s %s", a, b);
}

Test(node_conversation, there_is_a_key_for_each_message)
{
    struct conversation one = cut(CHAT(SAY("user", "\"a\"")));
    struct conversation two =
        cut(CHAT(SAY("user", "\"a\"") "," SAY("assistant", "\"bcd\"")));

    cr_assert_eq(one.count, 1);
    cr_assert_eq(two.count, 2);
    cr_assert_eq(one.keys[0], two.keys[0]);
    cr_assert_neq(two.keys[0], two.keys[1]);
    cr_assert_eq(one.bytes[0], strlen("usera"));
    cr_assert_eq(two.bytes[1], strlen("useraassistantbcd"));
}

Test(node_conversation, two_spellings_of_a_text_are_one)
{
    cr_assert_eq(whole_of(CHAT(SAY("user", "\"a\\u0041\\n/\""))),
                 whole_of(CHAT(SAY("us\\u0065r", "\"aA\\u000a\\/\""))));
    cr_assert_eq(whole_of("{\"prompt\":\"\\ud83d\\ude00\"}"),
                 whole_of("{\"prompt\":\"\U0001F600\"}"));
}

Test(node_conversation, spelling_does_not_matter_in_long_texts)
{
    static char plain[20000];
    static char odd[40000];

    for (size_t n = 1000; n < 12500; n += 567) {
        size_t at = (size_t)sprintf(odd, "{\"prompt\":\"");
        size_t to = (size_t)sprintf(plain, "{\"prompt\":\"");
        for (size_t i = 0; i < n; i++) {
            char c = (char)('a' + i % 26);
            plain[to++] = c;
            if (i % 211 == 5 || (i > 4090 && i < 4100)) {
                at += (size_t)sprintf(odd + at, "\\u%04x", c);
            } else {
                odd[at++] = c;
            }
        }
        strcpy(plain + to, "\"}");
        strcpy(odd + at, "\"}");
        cr_assert_eq(whole_of(plain), whole_of(odd));
        plain[to - 1]++;
        differ(plain, odd);
    }
}

/* A text that spells what would be hashed between two, or behind one. */
Test(node_conversation, no_text_can_fake_the_end_of_another)
{
    static char split[10000];
    static char fake[10000];
    static char a[4097];

    memset(a, 'a', 4096);
    for (unsigned size = 0; size <= 4096; size += 4096) {
        sprintf(split, CHAT(SAY("user", "[\"%s\",\"\"]")), a);
        sprintf(fake,
                CHAT(SAY("user", "\"%s\\u0001\\u0000\\u0000\\u0000"
                                 "\\u0000\\u0000\\u0000\\u0000"
                                 "\\u0000\\u%04x\\u0000\\u0000"
                                 "\\u0000\\u0000\\u0000\\u0000\"")),
                a, size >> 8);
        differ(split, fake);
    }
}

Test(node_conversation, each_api_gives_a_body_another_name)
{
    static const char body[] = CHAT(SAY("user", "\"ab\""));
    static const struct scan_limits limits = {.depth_max = 64,
                                              .spans_max = SPANS_MAX};
    static struct conversation name;
    struct scan_span spans[SPANS_MAX];
    uint64_t keys[SCAN_API_POOLING];

    for (unsigned api = SCAN_API_TEXT; api < SCAN_API_POOLING; api++) {
        struct scan scan = {.spans = spans, .api = (enum scan_api)api};
        cr_assert_eq(scan_body(body, sizeof(body) - 1, &limits, &scan), 0);
        conversation_name(&name, body, &scan, ROOT);
        keys[api] = name.keys[0];
        for (unsigned other = SCAN_API_TEXT; other < api; other++) {
            cr_assert_neq(keys[api], keys[other], "%u %u", api, other);
        }
    }
}

Test(node_conversation, whatever_changes_the_rendering_changes_the_name)
{
    static const char *const bodies[] = {
        CHAT(SAY("user", "\"ab\"")),
        CHAT(SAY("user", "[\"a\",\"b\"]")),
        CHAT(SAY("user", "\"a\"") "," SAY("", "\"b\"")),
        CHAT(SAY("user", "\"a\"") "," SAY("user", "\"b\"")),
        CHAT(SAY("system", "\"ab\"")),
        CHAT("{\"role\":\"user\",\"content\":\"ab\",\"tool_calls\":[1]}"),
        CHAT(SAY("user", "[{\"type\":\"image_url\",\"image_url\":\"ab\"}]")),
        "{\"model\":\"n\",\"messages\":[" SAY("user", "\"ab\"") "]}",
        "{\"messages\":[" SAY("user", "\"ab\"") "]}",
        "{\"thinking\":{},\"messages\":[" SAY("user", "\"ab\"") "]}",
        "{\"reasoning\":{},\"messages\":[" SAY("user", "\"ab\"") "]}",
        "{\"output_config\":{},\"messages\":[" SAY("user", "\"ab\"") "]}",
        CHAT("{\"role\":\"user\",\"content\":\"ab\",\"summary\":[2]}"),
        "{\"model\":\"m\",\"prompt\":\"ab\"}",
        "{\"model\":\"m\",\"prompt\":\"ab\",\"add_special_tokens\":false}",
        "{\"model\":\"m\",\"prompt\":\"ab\",\"add_special_tokens\":true}",
        "{\"model\":\"m\",\"prompt\":\"ab\",\"chat_template\":\"x\"}",
        "{\"model\":\"m\",\"prompt\":\"ab\",\"documents\":\"x\"}",
        "{\"model\":\"m\",\"prompt\":\"ab\",\"tools\":[\"x\"]}",
    };
    size_t count = sizeof(bodies) / sizeof(bodies[0]);

    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            differ(bodies[i], bodies[k]);
        }
        struct conversation other = cut_at(bodies[i], ROOT + 1, SPANS_MAX);
        cr_assert_neq(other.keys[0], whole_of(bodies[i]));
    }
}

Test(node_conversation, what_does_not_change_the_rendering_does_not_matter)
{
    cr_assert_eq(whole_of(CHAT(SAY("user", "\"a\""))),
                 whole_of("{\"stream\":true,\"user\":\"u\",\"messages\":["
                          "{\"content\":\"a\",\"role\":\"user\"}],"
                          "\"temperature\":0, \"model\" : \"m\"}"));
}

Test(node_conversation, media_count_by_their_name_but_not_as_text)
{
    struct conversation c = cut(CHAT(
        SAY("u", "[{\"type\":\"image_url\",\"image_url\":\"http:\\/\\/x\"}]")));
    struct conversation d = cut(CHAT(SAY(
        "u",
        "[{\"type\":\"image_url\",\"image_url\":{\"url\":\"http://x\"}}]")));

    cr_assert_eq(c.keys[0], d.keys[0]);
    cr_assert_eq(c.bytes[0], 1);
}

Test(node_conversation, ids_and_nothing_have_no_name)
{
    cr_assert_eq(cut("{\"prompt\":[1,2]}").count, 0);
    cr_assert_eq(cut("{\"prompt\":[[1,2]]}").count, 0);
    cr_assert_eq(cut("{\"model\":\"m\"}").count, 0);
    cr_assert_eq(cut("{\"messages\":[]}").count, 0);
    cr_assert_eq(cut("{\"prompt\":[\"a\",\"b\"]}").count, 1);
}

Test(node_conversation, one_that_is_truncated_has_one_name)
{
    const char *messages =
        "\"messages\":[" SAY("user", "\"a\"") "," SAY("user", "\"b\"") "]";
    char body[256];
    struct conversation c;

    (void)snprintf(body, sizeof(body), "{%s,\"truncate_prompt_tokens\":8}",
                   messages);
    c = cut(body);
    cr_assert_eq(c.count, 1);
    cr_assert_eq(c.bytes[0], 2 + 2 * strlen("user"));
    (void)snprintf(body, sizeof(body), "{%s,\"truncate_prompt_tokens\":null}",
                   messages);
    cr_assert_eq(cut(body).count, 2);
}

Test(node_conversation, what_was_not_scanned_to_its_end_has_no_name)
{
    const char *body = CHAT(SAY("user", "\"a\"") "," SAY("user", "\"b\""));

    cr_assert_eq(cut_at(body, ROOT, 4).count, 2);
    cr_assert_eq(cut_at(body, ROOT, 3).count, 0);
}

/* A chat of that many messages. */
static struct conversation
long_chat(unsigned messages)
{
    static char body[1 << 20];
    size_t at = (size_t)sprintf(body, "{\"messages\":[");

    for (unsigned i = 0; i < messages; i++) {
        at +=
            (size_t)sprintf(body + at, "%s{\"role\":\"u\",\"content\":\"%u\"}",
                            i != 0 ? "," : "", i);
    }
    strcpy(body + at, "]}");
    return cut(body);
}

Test(node_conversation, of_many_messages_both_ends_are_named)
{
    struct conversation all = long_chat(CONVERSATION_MAX);
    struct conversation more = long_chat(CONVERSATION_MAX + 10);
    uint32_t half = CONVERSATION_MAX / 2;

    cr_assert_eq(all.count, CONVERSATION_MAX);
    cr_assert_eq(more.count, CONVERSATION_MAX);
    cr_assert_eq(more.keys[0], all.keys[0]);
    cr_assert_eq(more.keys[half - 1], all.keys[half - 1]);
    cr_assert_eq(more.keys[half], all.keys[half + 10]);
    cr_assert_eq(more.keys[CONVERSATION_MAX - 11],
                 all.keys[CONVERSATION_MAX - 1]);
    cr_assert_eq(more.bytes[CONVERSATION_MAX - 11],
                 all.bytes[CONVERSATION_MAX - 1]);
}

/* Token i of the prompt with that seed; prompts of one seed share a prefix. */
static uint32_t *
ids(uint32_t count, uint32_t seed)
{
    uint32_t *tokens = malloc((count + 1) * sizeof(*tokens));

    for (uint32_t i = 0; tokens != NULL && i < count; i++) {
        tokens[i] = seed * 1000000 + i;
    }
    return tokens;
}

static struct token_cache *cache;
static const uint32_t sizes[] = {16, 64};

static void
start_with(size_t bytes_max)
{
    cr_assert_eq(token_cache_new(&cache, bytes_max), 0);
}

static void
start(void)
{
    start_with(1 << 20);
}

static void
stop(void)
{
    const char *reason;

    cr_assert(token_cache_check(cache, &reason), "%s", reason);
    token_cache_free(cache);
}

TestSuite(node_token_cache, .init = start, .fini = stop);

/* The first `turns` of a conversation: names seed, seed + 1, ... */
static struct conversation
talk(uint64_t seed, uint32_t turns)
{
    struct conversation c = {.count = turns};

    for (uint32_t i = 0; i < turns; i++) {
        c.keys[i] = seed * 1000 + i;
        c.bytes[i] = 400 * (i + 1);
    }
    return c;
}

static void
add(const struct conversation *c, const uint32_t *tokens, uint32_t count)
{
    token_cache_add(cache, c, ROOT,
                    &(struct token_text){.tokens = tokens, .count = count},
                    sizes, 2);
}

static uint64_t room_keys[4096];
static const struct token_room room = {room_keys, 2048};

static bool
find(const struct conversation *c, struct token_prompt *prompt)
{
    return token_cache_find(cache, c, sizes, 2, &room, prompt);
}

static void
has_blocks_of(const struct token_blocks *blocks, const uint32_t *tokens,
              uint32_t count)
{
    uint64_t key = ROOT;

    cr_assert_eq(blocks->count, count);
    for (uint32_t i = 0; i < count; i++) {
        key = key_next(key, tokens + (size_t)i * blocks->grain,
                       (size_t)blocks->grain * 4);
        cr_assert_eq(blocks->keys[i], key);
    }
}

Test(node_token_cache, the_whole_is_found_with_all_full_blocks)
{
    struct conversation c = talk(1, 3);
    uint32_t *tokens = ids(130, 1);
    struct token_prompt p;

    cr_assert_not(find(&c, &p));
    add(&c, tokens, 130);
    cr_assert(find(&c, &p));
    cr_assert(p.whole);
    cr_assert_eq(p.tokens, 130);
    cr_assert_eq(p.covered_bytes, 1200);
    cr_assert_eq(p.groups_count, 2);
    has_blocks_of(&p.groups[0], tokens, 8);
    has_blocks_of(&p.groups[1], tokens, 2);
    free(tokens);
}

Test(node_token_cache, what_was_wrong_goes_with_all_turns_of_its_line)
{
    struct conversation early = talk(1, 2);
    struct conversation late = talk(1, 3);
    struct conversation other = talk(2, 1);
    uint32_t *tokens = ids(130, 1);
    struct token_prompt p;

    add(&early, tokens, 100);
    add(&late, tokens, 130);
    add(&other, tokens, 130);
    cr_assert(find(&late, &p));
    token_cache_forget(cache, p.name);
    cr_assert_not(find(&late, &p));
    cr_assert_not(find(&early, &p));
    cr_assert(find(&other, &p));
    token_cache_forget(cache, 4711);
    free(tokens);
}

Test(node_token_cache, sizes_are_given_in_the_order_asked)
{
    static const uint32_t other[] = {64, 16};
    static const uint32_t third[] = {16, 32};
    struct conversation c = talk(1, 1);
    uint32_t *tokens = ids(130, 1);
    struct token_prompt p;

    add(&c, tokens, 130);
    cr_assert(token_cache_find(cache, &c, other, 2, &room, &p));
    has_blocks_of(&p.groups[0], tokens, 2);
    has_blocks_of(&p.groups[1], tokens, 8);
    cr_assert(token_cache_find(cache, &c, other, 1, &room, &p));
    cr_assert_eq(p.groups_count, 1);
    cr_assert_not(token_cache_find(cache, &c, third, 2, &room, &p));
    free(tokens);
}

Test(node_token_cache, what_does_not_fit_the_room_is_left_out)
{
    uint64_t keys[9] = {[8] = 4711};
    struct token_room small = {keys, 4};
    struct conversation c = talk(1, 1);
    uint32_t *tokens = ids(130, 1);
    struct token_prompt p;

    add(&c, tokens, 130);
    cr_assert(token_cache_find(cache, &c, sizes, 2, &small, &p));
    cr_assert_not(p.whole);
    has_blocks_of(&p.groups[0], tokens, 4);
    has_blocks_of(&p.groups[1], tokens, 2);
    cr_assert_eq(keys[8], 4711);
    free(tokens);
}

Test(node_token_cache, a_later_turn_finds_the_earlier_and_estimates_the_rest)
{
    struct conversation early = talk(1, 2);
    struct conversation late = talk(1, 6);
    uint32_t *tokens = ids(200, 1);
    struct token_prompt p;

    add(&early, tokens, 200);
    cr_assert(find(&late, &p));
    cr_assert_not(p.whole);
    cr_assert_eq(p.tokens, 600);
    cr_assert_eq(p.covered_bytes, 800);
    has_blocks_of(&p.groups[0], tokens, 12);
    free(tokens);
}

Test(node_token_cache, turns_share_one_line)
{
    struct conversation early = talk(1, 2);
    struct conversation late = talk(1, 4);
    uint32_t *tokens = ids(64000, 1);
    struct token_cache_stats before;
    struct token_cache_stats after;
    struct token_prompt p;

    add(&early, tokens, 32000);
    token_cache_stats(cache, &before);
    add(&late, tokens, 64000);
    token_cache_stats(cache, &after);
    cr_assert_eq(after.turns, 2);
    cr_assert_eq(after.lines, 1);
    cr_assert_leq(after.bytes - before.bytes, 100 + (2000 + 500) * 8);
    cr_assert(find(&early, &p));
    cr_assert(p.whole);
    has_blocks_of(&p.groups[0], tokens, 2000);
    cr_assert(find(&late, &p));
    has_blocks_of(&p.groups[1], tokens, 1000);
    free(tokens);
}

Test(node_token_cache, a_rewritten_history_cuts_the_earlier_turn)
{
    struct conversation early = talk(1, 2);
    struct conversation late = talk(1, 4);
    struct conversation later = talk(1, 5);
    uint32_t *tokens = ids(640, 1);
    struct token_prompt p;

    add(&early, tokens, 320);
    tokens[290] = 5;
    add(&late, tokens, 640);
    cr_assert(find(&early, &p));
    cr_assert_not(p.whole);
    cr_assert_eq(p.tokens, 320);
    cr_assert_eq(p.covered_bytes, 800 * 288 / 320);
    has_blocks_of(&p.groups[0], tokens, 18);
    has_blocks_of(&p.groups[1], tokens, 4);
    cr_assert(find(&later, &p));
    has_blocks_of(&p.groups[0], tokens, 40);
    free(tokens);
}

Test(node_token_cache, a_branch_does_not_disturb_the_others)
{
    struct conversation early = talk(1, 2);
    struct conversation left = talk(1, 4);
    struct conversation right = talk(1, 4);
    uint32_t *a = ids(640, 1);
    uint32_t *b = ids(640, 1);
    struct token_cache_stats stats;
    struct token_prompt p;

    right.keys[2] = 1;
    right.keys[3] = 2;
    for (unsigned i = 320; i < 640; i++) {
        b[i] = i;
    }
    add(&early, a, 320);
    add(&left, a, 640);
    add(&right, b, 640);
    token_cache_stats(cache, &stats);
    cr_assert_eq(stats.lines, 2);
    cr_assert(find(&early, &p) && p.whole);
    cr_assert(find(&left, &p) && p.whole);
    has_blocks_of(&p.groups[0], a, 40);
    cr_assert(find(&right, &p) && p.whole);
    has_blocks_of(&p.groups[0], b, 40);
    free(a);
    free(b);
}

Test(node_token_cache, the_same_again_replaces_what_was_known)
{
    struct conversation c = talk(1, 2);
    uint32_t *a = ids(320, 1);
    uint32_t *b = ids(320, 2);
    struct token_cache_stats stats;
    struct token_prompt p;

    add(&c, a, 320);
    add(&c, b, 300);
    cr_assert(find(&c, &p) && p.whole);
    cr_assert_eq(p.tokens, 300);
    has_blocks_of(&p.groups[0], b, 18);
    token_cache_stats(cache, &stats);
    cr_assert_eq(stats.turns, 1);
    cr_assert_eq(stats.lines, 1);
    free(a);
    free(b);
}

Test(node_token_cache, a_short_prompt_is_whole_without_a_block)
{
    struct conversation c = talk(1, 1);
    struct conversation late = talk(1, 2);
    uint32_t *tokens = ids(15, 1);
    struct token_prompt p;

    add(&c, tokens, 15);
    cr_assert(find(&c, &p));
    cr_assert(p.whole);
    cr_assert_eq(p.tokens, 15);
    cr_assert_eq(p.groups[0].count, 0);
    cr_assert_not(find(&late, &p));
    free(tokens);
}

Test(node_token_cache, nothing_is_kept_of_what_has_no_name)
{
    struct conversation none = {.count = 0};
    struct conversation c = talk(1, 1);
    struct token_prompt p;
    uint32_t *tokens = ids(15, 1);

    add(&none, tokens, 15);
    token_cache_add(cache, &c, ROOT,
                    &(struct token_text){.tokens = tokens, .count = 15}, sizes,
                    0);
    cr_assert_not(find(&none, &p));
    cr_assert_not(find(&c, &p));
    free(tokens);
}

Test(node_token_cache, the_least_recently_used_line_gives_way)
{
    uint32_t *tokens = ids(16000, 1);
    struct conversation first = talk(1, 1);
    struct token_cache_stats stats;
    struct token_prompt p;
    uint32_t found = 0;

    for (uint64_t i = 1; i <= 400; i++) {
        struct conversation c = talk(i, 1);
        add(&c, tokens, 16000);
        cr_assert(find(&first, &p) && p.whole); /* always used: it stays */
    }
    for (uint64_t i = 1; i <= 400; i++) {
        struct conversation c = talk(i, 1);
        found += find(&c, &p);
    }
    token_cache_stats(cache, &stats);
    cr_assert_eq(found, stats.turns);
    cr_assert_eq(stats.evicted, 400 - found);
    cr_assert_gt(stats.bytes, (1 << 20) - 12000);
    cr_assert_leq(stats.bytes, 1 << 20);
    free(tokens);
}

Test(node_token_cache, a_line_that_grows_is_the_last_to_give_way)
{
    uint32_t *tokens = ids(16000, 1);
    struct conversation early = talk(1000, 1);
    struct conversation late = talk(1000, 2);
    struct token_cache_stats stats = {.evicted = 0};
    struct token_prompt p;

    add(&early, tokens, 16000);
    for (uint64_t i = 1; stats.bytes < (1 << 20) - 10000; i++) {
        struct conversation c = talk(i, 1);
        add(&c, tokens, 16000);
        token_cache_stats(cache, &stats);
    }
    cr_assert_eq(stats.evicted, 0);
    add(&late, tokens, 16000);
    cr_assert(find(&early, &p) && p.whole);
    cr_assert(find(&late, &p) && p.whole);
    token_cache_stats(cache, &stats);
    cr_assert_neq(stats.evicted, 0);
    free(tokens);
}

Test(node_token_cache, what_exceeds_the_bound_is_refused)
{
    uint32_t *tokens = ids(2000000, 1);
    struct conversation c = talk(1, 1);
    struct conversation small = talk(2, 1);
    struct token_cache_stats stats;
    struct token_prompt p;

    add(&small, tokens, 100);
    add(&c, tokens, 2000000);
    cr_assert_not(find(&c, &p));
    cr_assert(find(&small, &p));
    token_cache_stats(cache, &stats);
    cr_assert_eq(stats.refused, 1);
    free(tokens);
}

Test(node_token_cache_bound, a_tiny_bound_keeps_nothing)
{
    uint32_t *tokens = ids(100, 1);
    struct conversation c = talk(1, 1);
    struct token_prompt p;

    start_with(100);
    add(&c, tokens, 100);
    cr_assert_not(find(&c, &p));
    token_cache_free(cache);
    free(tokens);
}

static void
fill(uint32_t *tokens)
{
    for (uint64_t i = 1; i < 40; i++) {
        for (uint32_t turn = 1; turn < 5; turn++) {
            struct conversation c = talk(i, turn);
            add(&c, tokens, turn * 40);
        }
    }
}

Test(node_token_cache_bound, without_memory_only_knowledge_is_lost)
{
    uint32_t *tokens = ids(400, 1);
    const char *reason;
    uint64_t n = 0;

    for (; failing_alloc_after(n); n++) {
        if (token_cache_new(&cache, 1 << 20) == 0) {
            fill(tokens);
            cr_assert(token_cache_check(cache, &reason), "%s", reason);
            token_cache_free(cache);
        } else {
            cr_assert_null(cache);
        }
    }
    failing_alloc_stop();
    cr_assert_gt(n, 300);
    free(tokens);
}
