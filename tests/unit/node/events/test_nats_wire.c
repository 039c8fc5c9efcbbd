#include "node/events/nats_wire_internal.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct nats_said said;

static enum nats_op
reads(const char *text)
{
    nats_wire_read(slice_of(text), 100, &said);
    return said.op;
}

static bool
is(struct slice slice, const char *text)
{
    return slice_equal(slice, slice_of(text));
}

Test(node_nats_wire, operations_are_read_one_by_one)
{
    cr_assert_eq(reads("PING\r\nPONG\r\n"), NATS_PING);
    cr_assert_eq(said.used, 6);
    cr_assert_eq(reads("pong\r\n"), NATS_PONG);
    cr_assert_eq(reads("+OK\r\n"), NATS_OK);
    cr_assert_eq(reads("-ERR 'Authorization Violation'\r\n"), NATS_ERR);
    cr_assert(is(said.text, "'Authorization Violation'"));
    cr_assert_eq(reads("INFO {\"a\":1} \r\n"), NATS_INFO);
    cr_assert(is(said.text, "{\"a\":1}"));
}

Test(node_nats_wire, a_message_has_its_parts)
{
    cr_assert_eq(reads("MSG a.b 7 3\r\nxyz\r\nPING\r\n"), NATS_MSG);
    cr_assert_eq(said.used, 18);
    cr_assert_eq(said.sid, 7);
    cr_assert(is(said.payload, "xyz"));
    cr_assert_eq(said.reply.len + said.headers.len, 0);
    cr_assert_eq(reads("msg a.b  7 in.box\t0\r\n\r\n"), NATS_MSG);
    cr_assert(is(said.reply, "in.box"));
    cr_assert_eq(said.payload.len, 0);
    cr_assert_eq(reads("HMSG a 8 12 15\r\nNATS/1.0\r\n\r\nxyz\r\n"), NATS_MSG);
    cr_assert(is(said.headers, "NATS/1.0\r\n\r\n"));
    cr_assert(is(said.payload, "xyz"));
    cr_assert_eq(reads("HMSG a 8 r 12 12\r\nNATS/1.0\r\n\r\n\r\n"), NATS_MSG);
    cr_assert(is(said.reply, "r"));
}

Test(node_nats_wire, each_beginning_of_an_operation_is_a_part)
{
    const char *whole = "HMSG a.b 8 r 12 15\r\nNATS/1.0\r\n\r\nxyz\r\n";

    for (size_t len = 0; len < strlen(whole); len++) {
        nats_wire_read((struct slice){whole, len}, 100, &said);
        cr_assert_eq(said.op, NATS_PART, "%zu", len);
        cr_assert_eq(said.used, 0);
    }
    cr_assert_eq(reads(whole), NATS_MSG);
    cr_assert_eq(said.used, strlen(whole));
}

Test(node_nats_wire, a_message_beyond_the_bound_is_skipped)
{
    cr_assert_eq(reads("HMSG a 8 r 12 101\r\n"), NATS_MSG);
    cr_assert_eq(said.used, 19);
    cr_assert_eq(said.skip, 103);
    cr_assert_eq(said.sid, 8);
    cr_assert(is(said.reply, "r"));
    cr_assert_eq(said.headers.len + said.payload.len, 0);
    cr_assert_eq(reads("MSG a 8 100\r\n"), NATS_PART);
}

Test(node_nats_wire, what_is_not_the_protocol_is_bad)
{
    static const char *const bad[] = {
        "\r\n",
        "\n",
        "PING\n",
        "HTTP/1.1 200 OK\r\n",
        "MSG a 1\r\n",
        "MSG a x 1\r\nx\r\n",
        "MSG a 1 r 1 1\r\nx\r\n",
        "MSG a 1 -1\r\n",
        "MSG a 1 1\r\nxyz",
        "MSG a 1 99999999999999999999\r\n",
        "MSG a 1 4294967296\r\n",
        "HMSG a 1 5\r\n12345\r\n",
        "HMSG a 1 3 2\r\nxx\r\n",
        "MSG a b c d e f g\r\n",
    };
    char line[NATS_LINE_MAX + 1];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_eq(reads(bad[i]), NATS_BAD, "%s", bad[i]);
        cr_assert_eq(said.used, 0);
    }
    memset(line, 'x', sizeof line);
    nats_wire_read((struct slice){line, NATS_LINE_MAX - 1}, 100, &said);
    cr_assert_eq(said.op, NATS_PART);
    nats_wire_read((struct slice){line, NATS_LINE_MAX}, 100, &said);
    cr_assert_eq(said.op, NATS_BAD);
}

static bool
names(const char *headers, const char *life, uint64_t seq)
{
    struct slice told;
    uint64_t number;

    return nats_wire_batch(slice_of(headers), &told, &number) &&
           is(told, life) && number == seq;
}

Test(node_nats_wire, a_header_names_the_batch)
{
    struct slice life;
    uint64_t seq;
    static const char *const bad[] = {
        "",
        "NATS/1.0\r\n\r\n",
        "NATS/1.0\r\nNats-Msg-Id: 7\r\n\r\n",
        "NATS/1.0\r\nNats-Msg-Id: -7\r\n\r\n",
        "NATS/1.0\r\nNats-Msg-Id: a-\r\n\r\n",
        "NATS/1.0\r\nNats-Msg-Id: a-7x\r\n\r\n",
        "NATS/1.0\r\nNats-Msg-Id: a-18446744073709551615\r\n\r\n",
    };
    char text[200];

    cr_assert(
        names("NATS/1.0\r\nA: b-1\r\nNats-Msg-Id: b81-7\r\n\r\n", "b81", 7));
    cr_assert(names("NATS/1.0\r\nnats-msg-id:a-b-0 \r\n\r\n", "a-b", 0));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_not(nats_wire_batch(slice_of(bad[i]), &life, &seq), "%s",
                      bad[i]);
    }
    (void)snprintf(text, sizeof text, "Nats-Msg-Id: %064d-7", 0);
    cr_assert(nats_wire_batch(slice_of(text), &life, &seq));
    (void)snprintf(text, sizeof text, "Nats-Msg-Id: %065d-7", 0);
    cr_assert_not(nats_wire_batch(slice_of(text), &life, &seq));
}

Test(node_nats_wire, a_first_line_has_a_status)
{
    cr_assert_eq(nats_wire_status(SLICE("NATS/1.0 404 No Messages\r\n\r\n")),
                 404);
    cr_assert_eq(nats_wire_status(SLICE("NATS/1.0 503\r\n\r\n")), 503);
    cr_assert_eq(nats_wire_status(SLICE("NATS/1.0\r\nA: 404\r\n\r\n")), 0);
    cr_assert_eq(nats_wire_status(SLICE("")), 0);
}

Test(node_nats_wire, a_reply_subject_tells_the_place_in_a_stream)
{
    struct nats_place place;

    cr_assert(
        nats_wire_place(SLICE("$JS.ACK.KV.c1.1.42.7.1700000000.5"), &place));
    cr_assert_eq(place.at, 42);
    cr_assert_eq(place.left, 5);
    cr_assert(
        nats_wire_place(SLICE("$JS.ACK.hub.acc.KV.c1.1.42.7.1700.5"), &place));
    cr_assert_eq(place.at, 42);
    cr_assert_eq(place.left, 5);
    cr_assert(nats_wire_place(SLICE("$JS.ACK.hub.acc.KV.c1.1.42.7.1700.5.rnd"),
                              &place));
    cr_assert_not(nats_wire_place(SLICE(""), &place));
    cr_assert_not(nats_wire_place(SLICE("_INBOX.a"), &place));
    cr_assert_not(nats_wire_place(SLICE("$JS.ACK.KV.c1.1.x.7.17.5"), &place));
    cr_assert_not(
        nats_wire_place(SLICE("$JS.ACK.KV.c1.1.42.7.17.5.1"), &place));
}

static const char *
connects(const char *login)
{
    static char text[600];
    struct buf out = buf_over(text, sizeof text - 1);

    const struct nats_login by = {login, "", ""};
    nats_wire_connect(&out, &by);
    cr_assert_not(out.failed);
    text[out.len] = '\0';
    return text;
}

Test(node_nats_wire, a_login_is_a_password_or_a_token)
{
    cr_assert_not_null(strstr(connects("kv:a:\"b"),
                              "\"user\":\"kv\",\"pass\":\"a:\\\"b\"}\r\n"));
    cr_assert_not_null(strstr(connects("tok"), "\"auth_token\":\"tok\"}\r\n"));
    cr_assert_null(strstr(connects(""), "user"));
    cr_assert_null(strstr(connects(""), "auth_token"));
}

Test(node_nats_wire, credentials_take_a_logins_place)
{
    static char text[4096];
    struct buf out = buf_over(text, sizeof text - 1);
    const struct nats_login login = {"kv:p", "ey.J.w", "c2ln"};

    nats_wire_connect(&out, &login);
    cr_assert_not(out.failed);
    text[out.len] = '\0';
    cr_assert_not_null(
        strstr(text, "\"jwt\":\"ey.J.w\",\"sig\":\"c2ln\"}\r\n"));
    cr_assert_null(strstr(text, "pass"));
}

Test(node_nats_wire, a_server_may_want_something_signed)
{
    cr_assert(slice_equal(
        nats_wire_nonce(SLICE("{\"a\":{\"nonce\":\"x\"},\"nonce\":\"ab-_\"}")),
        SLICE("ab-_")));
    cr_assert_eq(nats_wire_nonce(SLICE("{\"nonce\":1}")).len, 0);
    cr_assert_eq(nats_wire_nonce(SLICE("{}")).len, 0);
    cr_assert_eq(nats_wire_nonce(SLICE("[")).len, 0);
}

Test(node_nats_wire, a_server_may_want_tls)
{
    cr_assert(nats_wire_wants_tls(
        SLICE("{\"a\":{\"tls_required\":false},\"tls_required\":true}")));
    cr_assert_not(nats_wire_wants_tls(SLICE("{\"tls_required\":false}")));
    cr_assert_not(nats_wire_wants_tls(SLICE("{}")));
    cr_assert_not(nats_wire_wants_tls(SLICE("[")));
}
