/*
 * Mutated heads and bodies against llhttp, as the fuzzers do it, but from one
 * seed and with any compiler.
 *   property_http ROUNDS SEED     (1 SEED replays one that was printed)
 * Each round takes a row of the unit tests' tables, changes it in one to four
 * places, and compares. The closing line says how many inputs both accept, so
 * that a run which proves little is seen.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/base/rng.h"
#include "tests/fuzz/http_differ.h"
#include "tests/unit/node/http/http_cases.h"
#include "tests/unit/node/http/http_chunk_cases.h"

#define INPUT_BYTES_MAX 4096

static const struct slice pieces[] = {
    SLICE("\r\n"),
    SLICE("\r"),
    SLICE("\n"),
    SLICE(" "),
    SLICE("\t"),
    SLICE(":"),
    SLICE(","),
    SLICE(";"),
    SLICE("="),
    SLICE("\""),
    SLICE("\0"),
    SLICE("\x0B"),
    SLICE("\x7F"),
    SLICE("\xFF"),
    SLICE("0"),
    SLICE("5"),
    SLICE("hello"),
    SLICE("0\r\n\r\n"),
    SLICE("5\r\nhello\r\n"),
    SLICE("FFFFFFFFFFFFFFFF"),
    SLICE("Content-Length: 5\r\n"),
    SLICE("Content-Length: "),
    SLICE("Transfer-Encoding: chunked\r\n"),
    SLICE("Transfer-Encoding: "),
    SLICE("chunked"),
    SLICE("Connection: close\r\n"),
    SLICE("Connection: keep-alive, upgrade\r\n"),
    SLICE("Upgrade: h2c\r\n"),
    SLICE("Host: a\r\n"),
    SLICE("Expect: 100-continue\r\n"),
    SLICE("HTTP/1.0"),
    SLICE("HTTP/1.1"),
    SLICE("HTTP/1.1 204 \r\n"),
    SLICE("GET "),
    SLICE("http://a"),
    SLICE("X: y\r\n"),
};

struct input {
    char bytes[INPUT_BYTES_MAX];
    size_t len;
};

/* Replaces `gone` bytes at `at` by the piece, as far as it fits. */
static void
splice(struct input *input, size_t at, size_t gone, struct slice piece)
{
    if (input->len - gone + piece.len > INPUT_BYTES_MAX) {
        return;
    }
    memmove(input->bytes + at + piece.len, input->bytes + at + gone,
            input->len - at - gone);
    memcpy(input->bytes + at, piece.ptr, piece.len);
    input->len += piece.len - gone;
}

static void
mutate(struct input *input, struct rng *rng)
{
    size_t at = rng_below(rng, input->len + 1);
    size_t left = input->len - at;
    struct slice piece = pieces[rng_below(rng, HTTP_CASES_COUNT(pieces))];
    char copy[64];

    switch (rng_below(rng, 5)) {
    case 0: /* one byte becomes another */
        copy[0] = (char)rng_below(rng, 256);
        splice(input, at, left != 0, (struct slice){.ptr = copy, .len = 1});
        break;
    case 1: /* insert */
        splice(input, at, 0, piece);
        break;
    case 2: /* overwrite */
        splice(input, at, left < piece.len ? left : piece.len, piece);
        break;
    case 3: /* remove */
        splice(input, at, rng_below(rng, (left < 8 ? left : 8) + 1), SLICE(""));
        break;
    default: /* repeat what stands here elsewhere */
        left = left < sizeof(copy) ? left : sizeof(copy);
        memcpy(copy, input->bytes + at, left);
        splice(input, rng_below(rng, input->len + 1), 0,
               (struct slice){.ptr = copy, .len = left});
        break;
    }
}

static void
start(struct input *input, struct slice bytes)
{
    CHECK(bytes.len <= INPUT_BYTES_MAX);
    memcpy(input->bytes, bytes.ptr, bytes.len);
    input->len = bytes.len;
}

/* A body of the chunk table, or a few bytes, behind what input holds. */
static void
add_body(struct input *input, struct rng *rng)
{
    size_t i = rng_below(rng, 2 * HTTP_CASES_COUNT(http_chunk_goods));

    if (i < HTTP_CASES_COUNT(http_chunk_goods)) {
        splice(input, input->len, 0, http_chunk_goods[i].body);
    } else {
        splice(input, input->len, 0, SLICE("hello, world"));
    }
}

/* The input goes to the parsers in a block of its own size. */
static const char *
compare(const struct input *input, unsigned kind, size_t cut,
        struct http_differ_counts *counts)
{
    char *copy = malloc(input->len != 0 ? input->len : 1);
    struct slice bytes = {.ptr = copy, .len = input->len};
    const char *fault;

    CHECK(copy != NULL);
    memcpy(copy, input->bytes, input->len);
    if (kind == 0) {
        fault = http_differ_request(bytes, counts);
    } else if (kind == 1) {
        fault = http_differ_response(bytes, cut % 4 == 0 ? HTTP_HEAD : HTTP_GET,
                                     counts);
    } else {
        fault = http_differ_chunk(bytes, cut, counts);
    }
    free(copy);
    return fault;
}

/* A row of a table; one that is accepted three times out of four. */
static struct slice
pick(const struct http_case *cases, size_t count, struct rng *rng)
{
    bool any = rng_below(rng, 4) == 0;
    size_t row;

    do {
        row = rng_below(rng, count);
    } while (!any && cases[row].status != 0);
    return cases[row].head;
}

static void
begin(struct input *input, unsigned kind, struct rng *rng)
{
    if (kind == 0) {
        start(input, pick(http_request_cases,
                          HTTP_CASES_COUNT(http_request_cases), rng));
        add_body(input, rng);
    } else if (kind == 1) {
        start(input, pick(http_response_cases,
                          HTTP_CASES_COUNT(http_response_cases), rng));
        add_body(input, rng);
    } else {
        size_t row = rng_below(rng, HTTP_CASES_COUNT(http_chunk_goods));

        start(input, http_chunk_goods[row].body);
    }
}

static void
print_input(const struct input *input)
{
    for (size_t i = 0; i < input->len; i++) {
        unsigned char c = (unsigned char)input->bytes[i];

        if (c >= ' ' && c < 0x7F && c != '\\') {
            (void)putchar(c);
        } else {
            printf("\\x%02x%s", c, c == '\n' ? "\n" : "");
        }
    }
    (void)putchar('\n');
}

int
main(int argc, char **argv)
{
    static const char *const kinds[] = {"request", "response", "chunk"};
    struct http_differ_counts counts[3] = {0};
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    static struct input input;
    struct rng rng;

    for (uint64_t round = 0; round < rounds; round++) {
        unsigned kind = (unsigned)((seed + round) % 3);
        const char *fault;

        rng_init(&rng, seed + round);
        begin(&input, kind, &rng);
        for (uint64_t i = rng_below(&rng, 5); i != 0; i--) {
            mutate(&input, &rng);
        }
        fault = compare(&input, kind, rng_next(&rng) >> 32, &counts[kind]);
        if (fault != NULL) {
            printf("seed %" PRIu64 " (%s): %s\n", seed + round, kinds[kind],
                   fault);
            print_input(&input);
            return 1;
        }
    }
    for (unsigned kind = 0; kind < 3; kind++) {
        printf("%-8s both accept %" PRIu64 ", want more %" PRIu64
               ", ours refuses alone %" PRIu64 ", both refuse %" PRIu64 "\n",
               kinds[kind], counts[kind].accepted, counts[kind].more,
               counts[kind].stricter, counts[kind].refused);
    }
    return 0;
}
