#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/base/buf.h"
#include "node/tokens/token_ask_ids_internal.h"

static struct token_ids ids;

/* In memory that ends with the text. */
static int
read_text(const char *text, size_t len)
{
    char *copy = malloc(len + 1);

    cr_assert(copy != NULL);
    memcpy(copy + 1, text, len);
    int outcome = token_ids_read(
        &ids, (struct slice){.ptr = copy + 1, .len = len}, SLICE("ids"));
    free(copy);
    return outcome;
}

static void
are(const char *text, const char *want)
{
    char got[256] = "";
    size_t at = 0;

    cr_assert_eq(read_text(text, strlen(text)), 0, "%s", text);
    for (uint32_t i = 0; i < ids.count; i++) {
        at += (size_t)snprintf(got + at, sizeof(got) - at, "%u ", ids.ids[i]);
    }
    cr_assert_str_eq(got, want, "%s", text);
    token_ids_fini(&ids);
}

static void
fails(const char *text, int outcome)
{
    cr_assert_eq(read_text(text, strlen(text)), outcome, "%s", text);
    token_ids_fini(&ids);
}

Test(node_token_ask_ids, ids_are_found_in_an_object)
{
    are("{\"ids\":[1,22,333]}", "1 22 333 ");
    are(" { \"a\" : {\"ids\":[9]} , \"ids\" : [ 0 , 4294967295\n] }",
        "0 4294967295 ");
    are("{\"ids\":[]}", "");
    are("{\"i\\u0064s\":[7]}", "7 ");
}

Test(node_token_ask_ids, of_several_the_first_counts)
{
    are("[{\"ids\":[1]},{\"ids\":[2]}]", "1 ");
    are("{\"ids\":[[1,2],[3]]}", "1 2 ");
    are("{\"ids\":[[]]}", "");
}

Test(node_token_ask_ids, nothing_of_that_name_is_an_outcome)
{
    fails("{}", TOKEN_IDS_E_NONE);
    fails("{\"tokens\":[1]}", TOKEN_IDS_E_NONE);
    fails("{\"ids\":null}", TOKEN_IDS_E_NONE);
    fails("{\"ids\":\"1\"}", TOKEN_IDS_E_NONE);
}

Test(node_token_ask_ids, what_is_not_an_array_of_ids_is_bad)
{
    static const char *const bad[] = {
        "",
        "1",
        "[]",
        "[1]",
        "<html>",
        "{\"ids\"",
        "{\"ids\":[",
        "{\"ids\":[1",
        "{\"ids\":[1,",
        "{\"ids\":[1,]}",
        "{\"ids\":[,1]}",
        "{\"ids\":[1 2]}",
        "{\"ids\":[-1]}",
        "{\"ids\":[1.5]}",
        "{\"ids\":[01]}",
        "{\"ids\":[4294967296]}",
        "{\"ids\":[99999999999999999999999]}",
        "{\"ids\":[\"1\"]}",
        "{\"ids\":[null]}",
        "{\"ids\":[1,[2]]}",
        "{\"x\":tru,\"ids\":[1]}",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        fails(bad[i], TOKEN_IDS_E_BAD);
    }
}

Test(node_token_ask_ids, every_cut_is_bad)
{
    const char *text = "{\"a\":[1,{}],\"ids\":[ 12 , 3 ]";

    for (size_t len = 0; len < strlen(text); len++) {
        cr_assert_eq(read_text(text, len), TOKEN_IDS_E_BAD, "%zu", len);
    }
    are(text, "12 3 ");
}

Test(node_token_ask_ids, there_may_be_very_many)
{
    struct buf buf;

    buf_init(&buf, 1 << 24);
    buf_add_text(&buf, "{\"ids\":[0");
    for (uint32_t i = 1; i < 300000; i++) {
        buf_printf(&buf, ",%u", i * 13001U);
    }
    buf_add_text(&buf, "]}");
    cr_assert_eq(read_text(buf.ptr, buf.len), 0);
    cr_assert_eq(ids.count, 300000);
    for (uint32_t i = 0; i < ids.count; i++) {
        cr_assert_eq(ids.ids[i], i * 13001U);
    }
    cr_assert_eq(read_text("{\"ids\":[5]}", 11), 0);
    cr_assert_eq(ids.count, 1);
    token_ids_fini(&ids);
    buf_fini(&buf);
}
