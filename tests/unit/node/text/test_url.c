#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>

#include "node/text/url.h"

Test(node_url, http_yields_host_port_and_base_path)
{
    struct url url;

    cr_assert_null(url_parse_http(SLICE("http://GPU-1.example:8000"), &url));
    cr_assert_str_eq(url.host, "gpu-1.example");
    cr_assert_eq(url.port, 8000);
    cr_assert_str_eq(url.path, "");
    cr_assert_null(url_parse_http(SLICE("HTTP://10.0.0.1/base/v2//"), &url));
    cr_assert_str_eq(url.host, "10.0.0.1");
    cr_assert_eq(url.port, 80);
    cr_assert_str_eq(url.path, "/base/v2");
    cr_assert_null(url_parse_http(SLICE("http://[FE80::1]:1/"), &url));
    cr_assert_str_eq(url.host, "fe80::1");
    cr_assert_str_eq(url.path, "");
}

Test(node_url, bad_http_urls_are_refused)
{
    static const char *const bad[] = {
        "",
        "http://",
        "http:///x",
        "http://:80",
        "http://h:",
        "http://h:0",
        "http://h:65536",
        "http://h:99999999999",
        "http://h:80x",
        "http://h:-1",
        "http://h ",
        " http://h",
        "http://u@h",
        "http://h?q",
        "http://h/a?q",
        "http://h/a#f",
        "http://h/a b",
        "http://h/\xC3\xA4",
        "http://h\xC3\xA4",
        "http://300.0.0.1",
        "http://1.2.3",
        "http://a..b",
        "http://.a",
        "http://-a",
        "http://[::1",
        "http://[::g]:1",
        "http://[1.2.3.4]:1",
        "http://::1:80",
        "https://h",
        "tcp://h:1",
        "h:80",
    };
    char text[600] = "http://";
    struct url url;

    cr_assert_not_null(url_parse_web(SLICE("https://h:0"), &url));
    cr_assert_not_null(url_parse_web(SLICE("httpss://h"), &url));
    cr_assert_null(url_parse_web(SLICE("http://h"), &url));
    cr_assert(!url.tls && url.port == 80);
    cr_assert_null(url_parse_web(SLICE("HTTPS://h/b/"), &url));
    cr_assert(url.tls && url.port == 443);
    cr_assert_str_eq(url.path, "/b");
    cr_assert_str_eq(url_scheme(&url), "https://");

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_not_null(url_parse_http(slice_of(bad[i]), &url), "%s",
                           bad[i]);
    }
    memset(text + 7, 'a', URL_HOST_MAX);
    cr_assert_not_null(url_parse_http(slice_of(text), &url));
    text[7 + URL_HOST_MAX - 1] = '\0';
    cr_assert_null(url_parse_http(slice_of(text), &url));
    memset(text + 7, 'a', URL_HOST_MAX);
    text[8] = '/';
    text[8 + URL_PATH_MAX] = '\0';
    cr_assert_not_null(url_parse_http(slice_of(text), &url));
    text[8 + URL_PATH_MAX - 1] = '\0';
    cr_assert_null(url_parse_http(slice_of(text), &url));
    cr_assert_not_null(
        url_parse_http((struct slice){"http://[::1\0]:1", 15}, &url));
}

Test(node_url, tcp_needs_a_port_and_no_path)
{
    struct url url;

    cr_assert_null(url_parse_tcp(SLICE("tcp://gpu_1:5557"), &url));
    cr_assert_str_eq(url.host, "gpu_1");
    cr_assert_eq(url.port, 5557);
    cr_assert_not_null(url_parse_tcp(SLICE("tcp://gpu"), &url));
    cr_assert_not_null(url_parse_tcp(SLICE("tcp://gpu:0"), &url));
    cr_assert_not_null(url_parse_tcp(SLICE("tcp://gpu:1/"), &url));
    cr_assert_not_null(url_parse_tcp(SLICE("http://gpu:1"), &url));
}

Test(node_url, events_come_by_tcp_or_from_a_subject)
{
    static const char *const bad[] = {
        "nats://",          "nats://gpu",        "nats://gpu/",
        "nats://gpu/a.",    "nats://gpu/.a",     "nats://gpu/a..b",
        "nats://gpu/a.*",   "nats://gpu/>",      "nats://gpu/a/b",
        "nats://u:p@gpu/a", "nats://gpu:0/a",    "nats://gpu/a b",
        "tcp://gpu:1/a",    "http://gpu:4222/a", "tls://gpu",
        "tls://gpu:4222",   "tls://gpu/a.*",
    };
    struct url url;

    cr_assert_null(url_parse_events(SLICE("tcp://gpu:5557"), &url));
    cr_assert_not(url_is_nats(&url));
    cr_assert_str_eq(url_events_scheme(&url), "tcp://");
    cr_assert_null(url_parse_events(SLICE("tls://gpu/kv.a"), &url));
    cr_assert(url_is_nats(&url) && url.tls && url.port == 4222);
    cr_assert_str_eq(url_events_scheme(&url), "tls://");
    cr_assert_null(url_parse_events(SLICE("nats://[::1]:4000/kv.gpu-1"), &url));
    cr_assert(url_is_nats(&url) && !url.tls);
    cr_assert_str_eq(url_events_scheme(&url), "nats://");
    cr_assert_str_eq(url.host, "::1");
    cr_assert_eq(url.port, 4000);
    cr_assert_str_eq(url.path, "/kv.gpu-1");
    cr_assert_null(url_parse_events(SLICE("NATS://Gpu/KV"), &url));
    cr_assert_eq(url.port, 4222);
    cr_assert_str_eq(url.path, "/KV");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_not_null(url_parse_events(slice_of(bad[i]), &url), "%s",
                           bad[i]);
    }
}

Test(node_url, listening_takes_addresses_and_port_zero)
{
    struct sockaddr_storage address;
    struct url url;

    cr_assert_null(url_parse_listen(SLICE("127.0.0.1:0"), &url));
    cr_assert_eq(url.port, 0);
    cr_assert_null(url_parse_listen(SLICE("[::]:8080"), &url));
    cr_assert_eq(url_sockaddr(&url, &address), 0);
    cr_assert_eq(address.ss_family, AF_INET6);
    cr_assert_eq(((struct sockaddr_in6 *)&address)->sin6_port, htons(8080));
    cr_assert_not_null(url_parse_listen(SLICE("localhost:80"), &url));
    cr_assert_null(url_parse_listen(SLICE(":80"), &url));
    cr_assert_str_eq(url.host, "0.0.0.0");
    cr_assert_eq(url.port, 80);
    cr_assert_not_null(url_parse_listen(SLICE(":"), &url));
    cr_assert_not_null(url_parse_listen(SLICE("0.0.0.0"), &url));
    cr_assert_not_null(url_parse_listen(SLICE("0.0.0.0:1:2"), &url));
}

Test(node_url, peers_may_be_names_but_need_a_port)
{
    struct sockaddr_storage address;
    struct url url;

    cr_assert_null(url_parse_peer(SLICE("localhost:9080"), &url));
    cr_assert_eq(url_sockaddr(&url, &address), -EINVAL);
    cr_assert_not_null(url_parse_peer(SLICE("localhost:0"), &url));
    cr_assert_not_null(url_parse_peer(SLICE("localhost"), &url));
}

Test(node_url, a_host_may_be_as_long_as_dns_allows)
{
    char text[URL_HOST_MAX + 16];
    struct url url;

    memset(text, 'z', URL_HOST_MAX - 1);
    memcpy(text + URL_HOST_MAX - 1, ":80", 4);
    cr_assert_null(url_parse_peer(slice_of(text), &url));
    cr_assert_eq(strlen(url.host), URL_HOST_MAX - 1);
    memset(text, 'z', URL_HOST_MAX);
    memcpy(text + URL_HOST_MAX, ":80", 4);
    cr_assert_not_null(url_parse_peer(slice_of(text), &url));
}

Test(node_url, authority_puts_ipv6_in_brackets)
{
    char text[URL_TEXT_MAX];
    struct url url;

    cr_assert_null(url_parse_peer(SLICE("[::1]:9080"), &url));
    cr_assert_str_eq(url_authority(&url, text), "[::1]:9080");
    cr_assert_null(url_parse_http(SLICE("http://a"), &url));
    cr_assert_str_eq(url_authority(&url, text), "a:80");
}
