/* Replies of a Redis, whole, in parts, and such as no Redis sends. */
#include <criterion/criterion.h>
#include <string.h>

#include "node/redis/resp.h"

static int
read_text(const char *text, struct resp *resp)
{
    return resp_read(slice_of(text), 16, resp);
}

static void
is(const struct resp_item *item, enum resp_kind kind, const char *bytes)
{
    cr_expect_eq(item->kind, kind);
    cr_expect(slice_equal(item->bytes, slice_of(bytes)), "not %s", bytes);
}

Test(node_resp, each_kind_of_reply_is_read)
{
    struct resp resp;

    cr_assert_eq(read_text("+OK\r\n", &resp), 0);
    is(&resp.item, RESP_TEXT, "OK");
    cr_expect_eq(resp.size, 5);
    cr_assert_eq(read_text("-ERR no\r\n+", &resp), 0);
    is(&resp.item, RESP_ERROR, "ERR no");
    cr_expect_eq(resp.size, 9);
    cr_assert_eq(read_text(":-42\r\n", &resp), 0);
    cr_expect_eq(resp.item.kind, RESP_NUMBER);
    cr_expect_eq(resp.item.number, -42);
    cr_assert_eq(read_text("$4\r\na\r\nb\r\n", &resp), 0);
    is(&resp.item, RESP_BYTES, "a\r\nb");
    cr_expect_eq(resp.size, 10);
    cr_assert_eq(read_text("$0\r\n\r\n", &resp), 0);
    is(&resp.item, RESP_BYTES, "");
    cr_assert_eq(read_text("$-1\r\n", &resp), 0);
    cr_expect_eq(resp.item.kind, RESP_NOTHING);
    cr_assert_eq(read_text("*-1\r\n", &resp), 0);
    cr_expect_eq(resp.item.kind, RESP_NOTHING);
    cr_assert_eq(read_text("*0\r\n", &resp), 0);
    cr_expect_eq(resp.item.kind, RESP_LIST);
    cr_expect_eq(resp.count, 0);
}

Test(node_resp, a_list_has_its_items)
{
    struct resp resp;

    cr_assert_eq(read_text("*4\r\n$1\r\na\r\n$-1\r\n:7\r\n+x\r\n$9", &resp), 0);
    cr_expect_eq(resp.item.kind, RESP_LIST);
    cr_assert_eq(resp.count, 4);
    is(&resp.items[0], RESP_BYTES, "a");
    is(&resp.items[1], RESP_NOTHING, "");
    cr_expect_eq(resp.items[2].number, 7);
    is(&resp.items[3], RESP_TEXT, "x");
    cr_expect_eq(resp.size, 24);
}

Test(node_resp, a_part_of_a_reply_is_awaited)
{
    const char *whole[] = {"+OK\r\n", ":12\r\n", "$3\r\nabc\r\n",
                           "*3\r\n$1\r\na\r\n$-1\r\n:7\r\n"};
    struct resp resp;

    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        for (size_t len = 0; len < strlen(whole[i]); len++) {
            cr_expect_eq(resp_read((struct slice){whole[i], len}, 16, &resp),
                         RESP_E_MORE, "%zu bytes of reply %zu", len, i);
        }
    }
}

Test(node_resp, what_is_no_reply_or_too_large_is_told)
{
    const char *bad[] = {"HTTP/1.1 400 Bad Request\r\n",
                         "\r\n",
                         "+OK\rX",
                         ":\r\n",
                         ":-\r\n",
                         ":1x\r\n",
                         ":9999999999999999999\r\n",
                         "$-2\r\n",
                         "$17\r\n",
                         "$99999999999999999\r\n",
                         "$1\r\nabc",
                         "*9\r\n",
                         "*-7\r\n",
                         "*1\r\n*0\r\n",
                         "*2\r\n:1\r\n?\r\n"};
    char line[RESP_LINE_MAX + 8];
    struct resp resp;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_eq(read_text(bad[i], &resp), RESP_E_BAD, "%s", bad[i]);
    }
    memset(line, '+', sizeof(line));
    cr_expect_eq(resp_read((struct slice){line, sizeof(line)}, 16, &resp),
                 RESP_E_BAD, "a line without an end");
}

Test(node_resp, a_command_is_a_list_of_its_words)
{
    const struct slice words[3] = {SLICE("SET"), SLICE("a\r\n"), SLICE("")};
    struct buf out;

    buf_init(&out, 256);
    resp_add(&out, words, 3);
    cr_expect(
        slice_equal(buf_slice(&out),
                    SLICE("*3\r\n$3\r\nSET\r\n$3\r\na\r\n\r\n$0\r\n\r\n")));
    buf_fini(&out);
}
