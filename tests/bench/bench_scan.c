/*
 * The body scanner against simdjson's on-demand parser and two DOM parsers, on
 * the same bodies in the same run, and the scanner's kernels against each
 * other. Prints microseconds per body (the best of many rounds, taken in
 * turn), GB/s, ratios and allocations.
 *
 * Each kind is a set of different bodies, so that no branch predictor learns
 * one by heart; all of a set fit the second-level cache, as does a body that
 * was just received.
 *
 *   bench_scan [rounds]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if BENCH_JANSSON
#include <jansson.h>
#endif

#include "node/scan/scan_walk_internal.h"
#include "scan_bodies.h"
#include "scan_rivals.h"

#define SET_BYTES   (512U << 10) /* of one kind, if its bodies are small */
#define SET_MAX     128
#define SPANS_MAX   8192
#define ROUND_NS    2000000.0
#define KERNELS_MAX 5
#define COLUMNS     (KERNELS_MAX + 5)

struct set {
    struct buf buf;
    size_t at[SET_MAX + 1]; /* padded; the body is len[i] */
    size_t len[SET_MAX];
    unsigned count;
};

/* Gives the bytes of text it saw; 0: it failed. */
typedef size_t reader_fn(const char *body, size_t len);

static struct scan_span spans[SPANS_MAX];
static char text[2U << 20];
static const struct scan_kernel *kernel;
static unsigned long allocations;

/* Every allocation of the program passes here. */
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier) */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

void *
malloc(size_t size)
{
    allocations++;
    return __libc_malloc(size);
}

void *
calloc(size_t nmemb, size_t size)
{
    allocations++;
    return __libc_calloc(nmemb, size);
}

void *
realloc(void *ptr, size_t size)
{
    allocations++;
    return __libc_realloc(ptr, size);
}

static size_t
scan_with(const char *body, size_t len, struct scan *scan)
{
    struct scan_limits limits = {.depth_max = 64, .spans_max = SPANS_MAX};
    struct slice slice = {.ptr = body, .len = len};

    *scan = (struct scan){.spans = spans};
    return scan_body_with(kernel, slice, &limits, scan) == 0 && scan->stream &&
           scan->has_max_tokens && scan->model.present;
}

static size_t
ours_spans(const char *body, size_t len)
{
    struct scan scan;
    size_t bytes = 0;

    if (!scan_with(body, len, &scan)) {
        return 0;
    }
    for (uint32_t i = 0; i < scan.spans_count; i++) {
        bytes += spans[i].len;
    }
    return bytes;
}

static size_t
ours_text(const char *body, size_t len)
{
    struct scan scan;
    size_t bytes = 0;

    if (!scan_with(body, len, &scan)) {
        return 0;
    }
    for (uint32_t i = 0; i < scan.spans_count; i++) {
        bytes += spans[i].escaped
                     ? scan_unescape(body + spans[i].at, spans[i].len, text)
                     : spans[i].len;
    }
    return bytes;
}

#if BENCH_JANSSON
static size_t
jansson_dom(const char *body, size_t len)
{
    json_t *doc = json_loadb(body, len, 0, NULL);
    json_t *message;
    size_t bytes = 0;
    size_t i;

    json_array_foreach(json_object_get(doc, "messages"), i, message)
    {
        bytes += json_string_length(json_object_get(message, "role"));
        bytes += json_string_length(json_object_get(message, "content"));
    }
    bytes += json_array_size(json_object_get(doc, "prompt"));
    bytes += json_string_length(json_object_get(doc, "model"));
    json_decref(doc);
    return bytes;
}
#endif

static double
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds per body, over enough passes through the set. */
static double
measure(const struct set *set, reader_fn *read, unsigned passes)
{
    double start = now_ns();
    size_t bytes = 0;

    for (unsigned p = 0; p < passes; p++) {
        for (unsigned i = 0; i < set->count; i++) {
            size_t got = read(set->buf.ptr + set->at[i], set->len[i]);
            if (got == 0) {
                return 0;
            }
            bytes += got;
        }
    }
    if (bytes == 1) {
        puts("");
    }
    return (now_ns() - start) / passes / set->count;
}

static void
set_make(struct set *set, enum scan_body_kind kind, size_t size)
{
    static const char padding[SCAN_PADDING];

    buf_init(&set->buf, 64U << 20);
    set->count = (unsigned)(SET_BYTES / size);
    set->count = set->count < 2         ? 2
                 : set->count > SET_MAX ? SET_MAX
                                        : set->count;
    for (unsigned i = 0; i < set->count; i++) {
        set->at[i] = set->buf.len;
        scan_body_make(&set->buf, kind, size, 1000 + i);
        set->len[i] = set->buf.len - set->at[i];
        buf_add(&set->buf, padding, sizeof(padding));
    }
    set->at[set->count] = set->buf.len;
    if (set->buf.failed) {
        abort();
    }
}

struct column {
    const char *name;
    reader_fn *read;
    const struct scan_kernel *kernel;
    double best_ns;
    unsigned passes;
    unsigned long allocations; /* per body */
};

static unsigned
columns_make(struct column *columns)
{
    const struct scan_kernel *best = scan_kernel_best();
    const struct scan_kernel *k;
    unsigned n = 0;

    columns[n++] = (struct column){"spans", ours_spans, best, 0, 0, 0};
    columns[n++] = (struct column){"text", ours_text, best, 0, 0, 0};
#if BENCH_SIMDJSON
    columns[n++] = (struct column){"od-raw", rival_simdjson_raw, best, 0, 0, 0};
    columns[n++] =
        (struct column){"od-text", rival_simdjson_text, best, 0, 0, 0};
    columns[n++] = (struct column){"sj-dom", rival_simdjson_dom, best, 0, 0, 0};
#endif
#if BENCH_JANSSON
    columns[n++] = (struct column){"jansson", jansson_dom, best, 0, 0, 0};
#endif
    for (unsigned i = 0; (k = scan_kernel_nth(i)) != NULL; i++) {
        if (k->usable() && k != best) {
            columns[n++] = (struct column){k->name, ours_spans, k, 0, 0, 0};
        }
    }
    return n;
}

static void
run(const struct set *set, struct column *columns, unsigned count,
    unsigned rounds)
{
    for (unsigned round = 0; round <= rounds; round++) {
        for (unsigned c = 0; c < count; c++) {
            struct column *col = &columns[c];
            kernel = col->kernel;
            if (round == 0) { /* warms up, and says how long one pass takes */
                double once = measure(set, col->read, 1) * set->count;
                unsigned long before = allocations;
                once = measure(set, col->read, 1) * set->count;
                col->allocations = (allocations - before) / set->count;
                col->passes = 1 + (unsigned)(ROUND_NS / (once + 1));
                col->best_ns = once / set->count;
                continue;
            }
            double ns = measure(set, col->read, col->passes);
            col->best_ns = ns < col->best_ns ? ns : col->best_ns;
        }
    }
}

static double
best_of(const struct column *columns, unsigned count, const char *name)
{
    for (unsigned c = 0; c < count; c++) {
        if (strcmp(columns[c].name, name) == 0) {
            return columns[c].best_ns;
        }
    }
    return 0;
}

int
main(int argc, char **argv)
{
    static const struct {
        const char *name;
        enum scan_body_kind kind;
        size_t size;
    } kinds[] = {
        {"chat 2 KB", BODY_CHAT, 2000},
        {"chat 32 KB", BODY_CHAT, 32000},
        {"tools 32 KB", BODY_TOOLS, 32000},
        {"tools, spaced 32 KB", BODY_SPACED, 32000},
        {"chat 1 MB", BODY_CHAT, 1000000},
        {"Chinese \\u 32 KB", BODY_ESCAPED, 32000},
        {"Chinese UTF-8 32 KB", BODY_CHINESE, 32000},
        {"token ids 32 KB", BODY_IDS, 32000},
    };
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 15;
    struct column columns[COLUMNS];
    unsigned count = columns_make(columns);

    printf("us per body (GB/s), best of %u; scanner on %s", rounds,
           scan_kernel_best()->name);
#if BENCH_SIMDJSON
    printf(", simdjson on %s", rival_simdjson_name());
#endif
    printf("\n%-20s", "");
    for (unsigned c = 0; c < count; c++) {
        printf(" %14s", columns[c].name);
    }
    printf("  od-raw/spans od-text/text sj-dom/text allocations\n");
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        struct set set;
        set_make(&set, kinds[k].kind, kinds[k].size);
        run(&set, columns, count, rounds);
        double bytes = (double)(set.buf.len) / set.count - SCAN_PADDING;
        printf("%-20s", kinds[k].name);
        for (unsigned c = 0; c < count; c++) {
            double ns = columns[c].best_ns;
            printf(" %8.2f (%3.1f)", ns / 1e3, ns > 0 ? bytes / ns : 0);
        }
        printf("  %12.2f %12.2f %11.2f %lu\n",
               best_of(columns, count, "od-raw") / columns[0].best_ns,
               best_of(columns, count, "od-text") / columns[1].best_ns,
               best_of(columns, count, "sj-dom") / columns[1].best_ns,
               columns[0].allocations + columns[1].allocations);
        buf_fini(&set.buf);
    }
    return 0;
}
