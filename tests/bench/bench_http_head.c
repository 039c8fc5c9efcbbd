/*
 * Nanoseconds for one request head, beside llhttp in strict mode in the same
 * run where it is there: the best of many batches, the two taking turns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "index/base/buf.h"
#include "node/http/http_head.h"
#include "tests/bench/http_head_llhttp.h"

#define BATCHES     60
#define BATCH_HEADS 5000

/* What an OpenAI client library sends. */
static const char client[] =
    "POST /v1/chat/completions HTTP/1.1\r\n"
    "Host: kvasir.example.internal:8080\r\n"
    "Accept-Encoding: gzip, deflate, br, zstd\r\n"
    "Connection: keep-alive\r\n"
    "Accept: application/json\r\n"
    "Content-Type: application/json\r\n"
    "User-Agent: OpenAI/Python 1.97.0\r\n"
    "X-Stainless-Lang: python\r\n"
    "X-Stainless-Package-Version: 1.97.0\r\n"
    "X-Stainless-OS: Linux\r\n"
    "X-Stainless-Arch: x64\r\n"
    "X-Stainless-Runtime: CPython\r\n"
    "X-Stainless-Runtime-Version: 3.12.3\r\n"
    "Authorization: Bearer sk-0123456789abcdef0123456789abcdef01234567\r\n"
    "X-Stainless-Async: false\r\n"
    "x-stainless-retry-count: 0\r\n"
    "x-stainless-read-timeout: 600\r\n"
    "Content-Length: 4096\r\n";

/* What browsers and gateways add to it. */
static const char gateway[] =
    "Sec-CH-UA: \"Chromium\";v=\"126\", \"Not-A.Brand\";v=\"24\"\r\n"
    "Sec-CH-UA-Mobile: ?0\r\n"
    "Sec-CH-UA-Platform: \"Linux\"\r\n"
    "Sec-Fetch-Site: same-origin\r\n"
    "Sec-Fetch-Mode: cors\r\n"
    "Sec-Fetch-Dest: empty\r\n"
    "Origin: https://chat.example.com\r\n"
    "Referer: https://chat.example.com/c/1f0e7a52-9b1d-4bde-8b34-7a1f\r\n"
    "Accept-Language: en-GB,en;q=0.9,de;q=0.8,fr;q=0.7\r\n"
    "X-Forwarded-For: 203.0.113.7, 198.51.100.23, 192.0.2.11\r\n"
    "X-Forwarded-Proto: https\r\n"
    "X-Forwarded-Host: chat.example.com\r\n"
    "X-Request-Id: 8f14e45f-ceea-467f-a0e6-7c3c4f3d5b21\r\n"
    "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
    "Tracestate: rojo=00f067aa0ba902b7,congo=t61rcWkgMzE\r\n"
    "Baggage: userId=alice,serverNode=DF%2028,isProduction=false\r\n";

static const struct http_limits limits = {
    .head_bytes_max = 65536, .target_bytes_max = 8192, .headers_max = 96};

static struct http_head head;

/* One more header, as long as the head then ends at `until` bytes. */
static void
add_filled(struct buf *wire, const char *name, size_t until)
{
    static const char filler[] = "abcdefgh0123456789=;%+.-";

    buf_add_text(wire, name);
    while (wire->len < until - 4) {
        buf_add(wire, &filler[wire->len % (sizeof(filler) - 1)], 1);
    }
    buf_add_text(wire, "\r\n\r\n");
}

static double
now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static size_t
parse_ours(const char *bytes, size_t len)
{
    return http_head_parse_request(bytes, len, &limits, &head) == 0
               ? head.headers_count
               : 0;
}

/* ns per head of one batch. */
static double
time_batch(size_t (*parse)(const char *bytes, size_t len), struct slice wire,
           size_t headers)
{
    double start = now_ns();

    for (int i = 0; i < BATCH_HEADS; i++) {
        const char *bytes = wire.ptr;

        __asm__ volatile("" : "+r"(bytes) : : "memory");
        if (parse(bytes, wire.len) != headers) {
            (void)fprintf(stderr, "bench_http_head: not accepted\n");
            exit(1);
        }
    }
    return (now_ns() - start) / BATCH_HEADS;
}

static double
least(double a, double b)
{
    return a < b ? a : b;
}

static void
bench(const char *what, struct slice wire)
{
    size_t headers = parse_ours(wire.ptr, wire.len);
    double ours = 1e18;
    double theirs = 1e18;

    for (int i = 0; i < BATCHES; i++) {
        ours = least(ours, time_batch(parse_ours, wire, headers));
#ifdef BENCH_LLHTTP
        theirs =
            least(theirs, time_batch(bench_http_head_llhttp, wire, headers));
#endif
    }
    printf("%-8s %5zu B %2zu headers  ours %6.0f ns %5.2f GB/s", what, wire.len,
           headers, ours, (double)wire.len / ours);
    if (theirs < 1e18) {
        printf("   llhttp strict %6.0f ns   %.2fx\n", theirs, theirs / ours);
    } else {
        printf("   no llhttp, see tests/fuzz/get_llhttp\n");
    }
}

int
main(void)
{
    struct buf wire;

    buf_init(&wire, 65536);
    buf_add_text(&wire, client);
    add_filled(&wire, "X-Session-Id: ", 617);
    bench("client", buf_slice(&wire));
    buf_clear(&wire);
    buf_add_text(&wire, client);
    buf_add_text(&wire, gateway);
    add_filled(&wire, "Cookie: ", 3700);
    bench("gateway", buf_slice(&wire));
    buf_fini(&wire);
    return 0;
}
