#include <criterion/criterion.h>

#include "chaos/engine/engine_socket_internal.h"

static char endpoint[ENGINE_URL_MAX];

static const char *
of(const char *text, const char *host, uint32_t rank)
{
    return engine_socket_endpoint(text, host, 0, rank, endpoint) ? endpoint
                                                                 : "";
}

Test(chaos_engine_socket, a_port_gets_the_host_and_the_rank)
{
    cr_assert_str_eq(of("5557", "127.0.0.1", 0), "tcp://127.0.0.1:5557");
    cr_assert_str_eq(of("5557", "127.0.0.1", 3), "tcp://127.0.0.1:5560");
    cr_assert_str_eq(of("5557", "::1", 1), "tcp://[::1]:5558");
    cr_assert_str_eq(of("65535", "::1", 0), "tcp://[::1]:65535");
}

Test(chaos_engine_socket, an_endpoint_keeps_its_own_host)
{
    cr_assert_str_eq(of("tcp://*:5557", "::1", 0), "tcp://*:5557");
    cr_assert_str_eq(of("tcp://[::]:5557", "127.0.0.1", 9), "tcp://[::]:5566");
}

Test(chaos_engine_socket, port_0_is_any_for_each_rank)
{
    cr_assert_str_eq(of("0", "127.0.0.1", 0), "tcp://127.0.0.1:*");
    cr_assert_str_eq(of("tcp://10.0.0.1:0", "x", 2), "tcp://10.0.0.1:*");
    cr_assert(engine_socket_any_port("0"));
    cr_assert(engine_socket_any_port("tcp://10.0.0.1:0"));
    cr_assert_not(engine_socket_any_port("10"));
    cr_assert_not(engine_socket_any_port("tcp://0:10"));
    cr_assert_not(engine_socket_any_port(NULL));
}

Test(chaos_engine_socket, any_port_can_be_one_of_a_row)
{
    cr_assert(engine_socket_endpoint("0", "::1", 20000, 2, endpoint));
    cr_assert_str_eq(endpoint, "tcp://[::1]:20002");
    cr_assert(
        engine_socket_endpoint("tcp://*:5557", "::1", 20000, 2, endpoint));
    cr_assert_str_eq(endpoint, "tcp://*:5559");
}

Test(chaos_engine_socket, what_has_no_port_is_refused)
{
    static const char *const bad[] = {
        "",      "x",  "tcp://h",    "tcp://h:",
        "65536", "-1", " 1",         "1x",
        "+1",    "1 ", "tcp://h:-0", "99999999999999999999999"};
    char text[ENGINE_URL_MAX + 8];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_str_empty(of(bad[i], "127.0.0.1", 0), "%s", bad[i]);
    }
    cr_assert_str_empty(of("65535", "127.0.0.1", 1));
    memset(text, 'h', sizeof(text));
    strcpy(text + sizeof(text) - 3, ":1");
    cr_assert_str_empty(of(text, "127.0.0.1", 0));
}

Test(chaos_engine_socket, numbers_are_written_big_end_first)
{
    unsigned char bytes[ENGINE_SEQ_BYTES];

    engine_seq_encode(UINT64_C(0x0102030405060708), bytes);
    for (unsigned i = 0; i < ENGINE_SEQ_BYTES; i++) {
        cr_assert_eq(bytes[i], i + 1);
    }
    cr_assert_eq(engine_seq_decode(bytes), UINT64_C(0x0102030405060708));
    engine_seq_encode(UINT64_MAX, bytes);
    cr_assert_eq(engine_seq_decode(bytes), UINT64_MAX);
}
