#include <criterion/criterion.h>
#include <stdio.h>

#include "node/scan/blocks.h"

#define KEYS_MAX  4096
#define SPANS_MAX 256

struct cut {
    struct blocks blocks;
    uint64_t keys[KEYS_MAX];
};

static struct cut
cut_at(const char *body, uint32_t block_bytes, uint32_t blocks_max)
{
    static struct scan_span spans[SPANS_MAX];
    struct scan_limits limits = {.depth_max = 64, .spans_max = SPANS_MAX};
    struct scan scan = {.spans = spans};
    struct cut cut;

    cr_assert_eq(scan_body(body, strlen(body), &limits, &scan), 0, "%s at %zu",
                 scan.fault, scan.fault_at);
    cut.blocks = (struct blocks){
        .keys = cut.keys, .block_bytes = block_bytes, .blocks_max = blocks_max};
    blocks_split(&cut.blocks, body, &scan);
    return cut;
}

static struct cut
cut(const char *body)
{
    return cut_at(body, 16, KEYS_MAX);
}

static bool
same(const struct cut *a, const struct cut *b)
{
    return a->blocks.count == b->blocks.count &&
           a->blocks.root == b->blocks.root &&
           memcmp(a->keys, b->keys, a->blocks.count * sizeof(a->keys[0])) == 0;
}

static uint32_t
shared(const struct cut *a, const struct cut *b)
{
    uint32_t i = 0;

    while (i < a->blocks.count && i < b->blocks.count &&
           a->keys[i] == b->keys[i]) {
        i++;
    }
    return i;
}

#define USER(text)     "{\"role\":\"user\",\"content\":" text "}"
#define CHAT(messages) "{\"model\":\"m\",\"messages\":[" messages "]}"

Test(node_blocks, spelling_does_not_matter)
{
    struct cut raw = cut(CHAT(USER("\"caf\xc3\xa9 \xf0\x9f\x98\x80 and some "
                                   "more text here / end\"")));
    struct cut escaped = cut(CHAT(USER("\"caf\\u00e9 \\ud83d\\uDE00 and some "
                                       "more\\u0020text here \\/ end\"")));

    cr_assert_eq(raw.blocks.count, 2);
    cr_assert(same(&raw, &escaped));
}

Test(node_blocks, long_runs_of_escapes_are_not_torn)
{
    char raw[4096] = "{\"prompt\":\"";
    char escaped[8192] = "{\"prompt\":\"x";

    strcat(raw, "x");
    for (int i = 0; i < 200; i++) {
        strcat(raw, "\xf0\x9f\x98\x80");
        strcat(escaped, "\\ud83d\\ude00");
        if (i % 7 == 0) {
            strcat(raw, "\xc3\xa9");
            strcat(escaped, "\\u00e9");
        }
    }
    strcat(raw, "\"}");
    strcat(escaped, "\"}");
    struct cut a = cut(raw);
    struct cut b = cut(escaped);
    cr_assert_gt(a.blocks.count, 40);
    cr_assert(same(&a, &b));
}

Test(node_blocks, a_string_and_its_parts_are_the_same)
{
    struct cut string = cut(CHAT(USER("\"one two three four five six\"")));
    struct cut parts =
        cut(CHAT(USER("[{\"type\":\"text\",\"text\":\"one two three \"},"
                      "{\"type\":\"text\",\"text\":\"four five six\"}]")));

    cr_assert(same(&string, &parts));
}

Test(node_blocks, text_moved_between_messages_is_another_prompt)
{
#define LONG "cccccccccccccccccccccccccccccc"
    struct cut a = cut(CHAT(USER("\"aaaaaaaa\"") "," USER("\"b" LONG "\"")));
    struct cut b = cut(CHAT(USER("\"aaaaaaaab\"") "," USER("\"" LONG "\"")));
    struct cut c = cut(CHAT("{\"role\":\"system\",\"content\":\"aaaaaaaa\"}"
                            "," USER("\"b" LONG "\"")));

    cr_assert(!same(&a, &b));
    cr_assert_eq(shared(&a, &c), 0);
}

Test(node_blocks, the_next_turn_begins_with_the_last_one)
{
    struct cut first = cut(CHAT(USER("\"what is the answer to it all\"")));
    struct cut second = cut(CHAT(
        USER("\"what is the answer to it all\"") ","
                                                 "{\"role\":\"assistant\","
                                                 "\"content\":\"forty two, as "
                                                 "ever\"}," USER("\"why\"")));

    cr_assert_gt(second.blocks.count, first.blocks.count);
    cr_assert_eq(shared(&first, &second), first.blocks.count);
    cr_assert_eq(first.blocks.prefix_key, second.blocks.prefix_key);
}

Test(node_blocks, model_salt_and_adapter_are_namespaces)
{
    struct cut a = cut("{\"model\":\"m\",\"prompt\":\"0123456789abcdef\"}");
    struct cut b = cut("{\"model\":\"n\",\"prompt\":\"0123456789abcdef\"}");
    struct cut c = cut("{\"model\":\"m\",\"cache_salt\":\"s\","
                       "\"prompt\":\"0123456789abcdef\"}");

    cr_assert_eq(a.blocks.count, 1);
    cr_assert_neq(a.keys[0], b.keys[0]);
    cr_assert_neq(a.keys[0], c.keys[0]);
    cr_assert_neq(b.keys[0], c.keys[0]);
    struct cut d = cut("{\"model\":\"m\",\"lora_path\":\"s\","
                       "\"prompt\":\"0123456789abcdef\"}");
    cr_assert_neq(a.keys[0], d.keys[0]);
}

#define BILLED(parts)                                                          \
    "{\"model\":\"m\",\"system\":" parts ",\"messages\":[" USER("\"why\"") "]" \
                                                                           "}"

Test(node_blocks, what_changes_for_billing_does_not_matter)
{
    struct cut plain = cut(BILLED("[{\"type\":\"text\",\"text\":"
                                  "\"You are an assistant, and brief.\"}]"));
    struct cut part = cut(BILLED(
        "[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: cch=1\"},"
        "{\"type\":\"text\",\"text\":\"You are an assistant, and "
        "brief.\"}]"));
    struct cut line =
        cut(BILLED("\"x-anthropic-billing-header: cch=2\\nYou are an "
                   "assistant, and brief.\""));
    struct cut other = cut(BILLED("\"x-anthropic-billing: cch=2\\nYou are an "
                                  "assistant, and brief.\""));
    struct cut alone = cut(BILLED("\"x-anthropic-billing-header: \\u0061\""));

    cr_assert_gt(plain.blocks.count, 1);
    cr_assert(same(&plain, &part));
    cr_assert(same(&plain, &line));
    cr_assert_not(same(&plain, &other));
    cr_assert_leq(alone.blocks.count, 1);
}

Test(node_blocks, what_changes_for_billing_is_no_opening_of_a_conversation)
{
    struct cut a = cut(
        CHAT("{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":"
             "\"x-anthropic-billing-header: cch=1\"},{\"type\":\"text\","
             "\"text\":\"You are brief.\"}]}," USER("\"why\"")));
    struct cut b = cut(
        CHAT("{\"role\":\"system\",\"content\":"
             "\"x-anthropic-billing-header: cch=2\\nYou are brief.\"}," USER(
                 "\"why\"")));
    struct cut c = cut(CHAT("{\"role\":\"system\",\"content\":\"You are "
                            "long.\"}," USER("\"why\"")));

    cr_assert_eq(a.blocks.prefix_key, b.blocks.prefix_key);
    cr_assert_neq(a.blocks.prefix_key, c.blocks.prefix_key);
}

Test(node_blocks, token_ids_count_by_value_not_by_spelling)
{
    struct cut a = cut("{\"prompt\":[1,22,333,4444,5,6,7,8]}");
    struct cut b = cut("{\"prompt\":[ 1, 22 ,333,\n4444,5,6,7,8 ]}");
    struct cut c = cut("{\"prompt\":[122,333,4444,5,6,7,8,9]}");

    cr_assert_eq(a.blocks.count, 2);
    cr_assert(same(&a, &b));
    cr_assert_eq(shared(&a, &c), 0);
}

Test(node_blocks, media_is_known_by_what_it_is)
{
#define IMAGE(url)                                                     \
    CHAT(USER("[{\"type\":\"image_url\",\"image_url\":{\"url\":\"" url \
              "\"}},{\"type\":\"text\",\"text\":\"what is this\"}]"))
    struct cut a = cut(IMAGE("https://example.com/a.png"));
    struct cut b = cut(IMAGE("https://example.com/b.png"));
    struct cut again = cut(IMAGE("https://example.com/a.png"));

    cr_assert_gt(a.blocks.count, 0);
    cr_assert(same(&a, &again));
    cr_assert(!same(&a, &b));
}

Test(node_blocks, a_picture_counts_as_text_of_its_size)
{
    struct cut a = cut(IMAGE("https://example.com/a.png"));
    struct cut next =
        cut(CHAT(USER("[{\"type\":\"image_url\",\"image_url\":{\"url\":"
                      "\"https://example.com/a.png\"}},{\"type\":\"text\","
                      "\"text\":\"and that\"}]")));

    cr_assert_geq(a.blocks.count * a.blocks.block_bytes, 1024);
    cr_assert_geq(shared(&a, &next) * a.blocks.block_bytes, 1024,
                  "another question about it goes where it is");
}

Test(node_blocks, tools_come_first_wherever_they_stand)
{
    struct cut a =
        cut("{\"tools\":[{\"type\":\"function\"}],\"messages\":[" USER(
            "\"hello there\"") "]}");
    struct cut b = cut("{\"messages\":[" USER(
        "\"hello there\"") "],\"tools\":[{\"type\":\"function\"}]}");
    struct cut c = cut("{\"messages\":[" USER("\"hello there\"") "]}");
    struct cut d = cut("{\"messages\":[" USER(
        "\"hello there\"") "],\"tools\":[{\"type\":\"functions\"}]}");

    cr_assert(same(&a, &b));
    cr_assert_eq(shared(&a, &c), 0);
    cr_assert_lt(shared(&a, &d), 2, "other tools, another prompt");
}

Test(node_blocks, the_rest_of_a_block_and_what_is_over_the_bound_is_left_out)
{
    const char *body = "{\"prompt\":\"0123456789abcdef0123456789abcdef012\"}";
    struct cut all = cut(body);
    struct cut one = cut_at(body, 16, 1);

    cr_assert_eq(all.blocks.count, 2);
    cr_assert_eq(one.blocks.count, 1);
    cr_assert_eq(one.keys[0], all.keys[0]);
}

/* Goes through the body by pieces of about that many bytes. How many. */
static unsigned
cut_in_pieces(struct cut *cut, const char *body, uint32_t block_bytes,
              size_t bytes)
{
    static struct scan_span spans[SPANS_MAX];
    static struct blocks_cut at;
    struct scan_limits limits = {.depth_max = 64, .spans_max = SPANS_MAX};
    struct scan scan = {.spans = spans};
    unsigned pieces = 1;

    cr_assert_eq(scan_body(body, strlen(body), &limits, &scan), 0);
    cut->blocks = (struct blocks){
        .keys = cut->keys, .block_bytes = block_bytes, .blocks_max = KEYS_MAX};
    blocks_begin(&at, &cut->blocks, body, &scan);
    for (; !blocks_more(&at, bytes); pieces++) {
    }
    return pieces;
}

Test(node_blocks, pieces_make_the_same_keys)
{
    static const char *const bodies[] = {
        CHAT("{\"role\":\"sys\\u0074em\",\"content\":\"be brief\"}," USER(
            "\"caf\\u00e9 \\ud83d\\uDE00 and some more text here\"")),
        "{\"tools\":[{\"name\":\"a tool of some "
        "length\"}],\"messages\":[" USER(
            "[{\"type\":\"image_url\",\"image_url\":{\"url\":\"http://a/"
            "1\"}}]") "]}",
        "{\"prompt\":[1,22,333,4444,55555,6,77,888,9999,1]}",
        "{\"prompt\":\"\"}",
    };

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct cut whole = cut(bodies[i]);
        struct cut pieces;
        (void)cut_in_pieces(&pieces, bodies[i], 16, 1);
        cr_assert(same(&whole, &pieces), "%zu", i);
    }
}

/* Escapes everywhere, nowhere, and only behind a long run without. */
Test(node_blocks, a_piece_is_no_longer_than_asked_for_and_a_run)
{
    static char body[(1 << 20) + 64];
    static const struct {
        const char *begin;
        const char *unit;
        const char *end;
    } prompts[] = {
        {"\"", "\\n\\u00e9 ", "\""},
        {"\"", "a word ", "\""},
        {"\"", "caf\xc3\xa9 ", "\\n\""},
        {"[", "1234567,", "1]"},
    };

    for (size_t i = 0; i < sizeof(prompts) / sizeof(prompts[0]); i++) {
        size_t len = (size_t)sprintf(body, "{\"prompt\":%s", prompts[i].begin);
        while (len < 1 << 20) {
            len += (size_t)sprintf(body + len, "%s", prompts[i].unit);
        }
        (void)sprintf(body + len, "%s}", prompts[i].end);
        struct cut whole = cut_at(body, 256, KEYS_MAX);
        struct cut pieces;
        unsigned count = cut_in_pieces(&pieces, body, 256, SCAN_RUN_BYTES);
        cr_assert(same(&whole, &pieces), "%zu", i);
        cr_assert_geq(count, (1U << 20) / (2 * SCAN_RUN_BYTES), "%zu", i);
    }
}

Test(node_blocks, a_piece_has_one_large_picture_at_most)
{
    static char body[4 * 100100];
    size_t len = (size_t)sprintf(body, "{\"messages\":[{\"role\":\"user\","
                                       "\"content\":[");

    for (unsigned i = 0; i < 4; i++) {
        len += (size_t)sprintf(body + len,
                               "%s{\"type\":\"image_url\",\"image_url\":"
                               "{\"url\":\"data:%u",
                               i == 0 ? "" : ",", i);
        memset(body + len, 'a', 100000);
        len += 100000;
        len += (size_t)sprintf(body + len, "\"}}");
    }
    (void)sprintf(body + len, "]}]}");
    struct cut whole = cut_at(body, 256, KEYS_MAX);
    struct cut pieces;
    cr_assert_geq(cut_in_pieces(&pieces, body, 256, 64U << 10), 4);
    cr_assert(same(&whole, &pieces));
}

Test(node_blocks, an_id_at_the_end_of_a_run_stays_whole)
{
    static char close[(1 << 18) + 64];
    static char wide[(1 << 18) + 64];
    size_t at = (size_t)sprintf(close, "{\"prompt\":[");
    size_t wide_at = (size_t)sprintf(wide, "{\"prompt\":[");

    for (unsigned i = 0; i < 20000; i++) {
        at += (size_t)sprintf(close + at, "1234567,");
        wide_at += (size_t)sprintf(wide + wide_at, "1234567, ");
    }
    (void)sprintf(close + at, "1]}");
    (void)sprintf(wide + wide_at, "1]}");
    struct cut a = cut(close);
    struct cut b = cut(wide);
    cr_assert_gt(at, 2 * SCAN_RUN_BYTES);
    cr_assert(same(&a, &b));
}
