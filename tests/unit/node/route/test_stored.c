#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/route/stored.h"

static bool
is(struct slice found, const char *wanted)
{
    if (!slice_equal(found, slice_of(wanted))) {
        (void)fprintf(stderr, "\"%.*s\" is not \"%s\"\n", (int)found.len,
                      found.ptr, wanted);
        return false;
    }
    return true;
}

Test(stored, a_path_has_the_id_of_what_it_is_about)
{
    static const struct {
        const char *path;
        const char *id; /* NULL: it is about nothing that is stored */
    } cases[] = {
        {"/v1/responses", ""},
        {"/v1/responses/", ""},
        {"/v1/responses/resp_1", "resp_1"},
        {"/v1/responses/resp_1/cancel", "resp_1"},
        {"/v1/files/file-2/content", "file-2"},
        {"/v1/batches/b", "b"},
        {"/v1/responsesx/resp_1", NULL},
        {"/v1/chat/completions", NULL},
        {"/v1/file", NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct slice path = slice_of(cases[i].path);
        bool stored = cases[i].id != NULL;
        cr_assert_eq(stored_is_path(path), stored, "%s", cases[i].path);
        cr_assert(is(stored_path_id(path), stored ? cases[i].id : ""));
    }
}

Test(stored, an_id_is_its_tenants_own_and_no_longer_than_allowed)
{
    char path[256] = "/v1/files/";

    cr_assert_neq(stored_key(1, SLICE("a")), stored_key(2, SLICE("a")));
    cr_assert_neq(stored_key(1, SLICE("a")), stored_key(1, SLICE("b")));
    memset(path + 10, 'x', STORED_ID_MAX);
    cr_assert_eq(stored_path_id(slice_of(path)).len, STORED_ID_MAX);
    path[10 + STORED_ID_MAX] = 'x';
    cr_assert_eq(stored_path_id(slice_of(path)).len, 0);
}

static bool
body_names(const char *body, const char *id)
{
    static struct scan_span spans[8];
    static const struct scan_limits limits = {.depth_max = 16, .spans_max = 8};
    static struct scan scan;

    memset(&scan, 0, sizeof(scan));
    scan.api = SCAN_API_GUESSED;
    scan.spans = spans;
    cr_assert_eq(scan_body(body, strlen(body), &limits, &scan), 0, "%s", body);
    return is(stored_body_id(&scan, slice_of(body)), id);
}

Test(stored, a_body_names_what_it_goes_on_with)
{
    cr_assert(
        body_names("{\"input\":\"x\",\"previous_response_id\":\"r1\"}", "r1"));
    cr_assert(body_names("{\"input_file_id\": \"f1\"}", "f1"));
    cr_assert(body_names("{\"previous_response_id\":null}", ""));
    cr_assert(body_names("{\"previous_response_id\":\"\"}", ""));
    cr_assert(body_names("{\"previous_response_id\":17}", ""));
    cr_assert(body_names("{\"metadata\":{\"input_file_id\":\"f1\"}}", ""));
}

/* All ids of an answer that comes in pieces of that size, between commas. */
static const char *
ids_of(const char *text, size_t piece)
{
    static struct stored_watch watch;
    static char out[512];
    size_t len = strlen(text);
    struct slice id;

    memset(&watch, 0, sizeof(watch));
    out[0] = '\0';
    for (size_t at = 0; at < len; at += piece) {
        size_t size = len - at < piece ? len - at : piece;
        stored_watch_give(&watch, (struct slice){text + at, size});
        while ((id = stored_watch_next(&watch)).len != 0) {
            size_t end = strlen(out);
            (void)snprintf(out + end, sizeof(out) - end, "%.*s,", (int)id.len,
                           id.ptr);
        }
    }
    return out;
}

Test(stored, an_answer_says_what_was_made_in_pieces_of_any_size)
{
    static const char batch[] =
        "{\"object\":\"batch\", \"id\" : \"batch_1\",\"say\":\"\\\"id\\\":\\\"x"
        "\\\"\",\"output_file_id\":null,\"error_file_id\":\"file_e\","
        "\"output_file_id\":\"file_o\"}";

    for (size_t piece = 1; piece < sizeof(batch); piece++) {
        const char *found = ids_of(batch, piece);
        bool first = strncmp(found, "batch_1,", 8) == 0;
        cr_assert(first && strstr(found, "file_e,") != NULL &&
                      strstr(found, "file_o,") != NULL && strlen(found) == 22,
                  "%zu: %s", piece, found);
    }
    cr_assert_str_eq(ids_of("{\"id\":\"unended", 3), "");
    cr_assert_str_eq(ids_of("{\"id\":7,\"data\":[{\"id\":\"a\"}]}", 5), "a,");
}

Test(stored, no_more_of_an_answer_is_looked_at_than_allowed)
{
    char *text = malloc(STORED_WATCH_BYTES + 64);

    cr_assert_not_null(text);
    memset(text, ' ', STORED_WATCH_BYTES);
    (void)snprintf(text + STORED_WATCH_BYTES - 4, 64, "{\"id\":\"late\"}");
    cr_assert_str_eq(ids_of(text, 100), "");
    free(text);
}
