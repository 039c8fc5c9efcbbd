/*
 * How long a node takes for a prompt's tokens by a model's own files, from the
 * body to the ids: first turns, next turns of a long conversation, and what a
 * lane does at once at most.
 *
 * Times are of the processor, so that other programs do not count.
 *
 *   bench_local DIR    a model's folder, or one that holds it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "index/base/check.h"
#include "node/local/local_load.h"
#include "node/local/local_tokens.h"

#define ROUNDS    31
#define BODY_MAX  ((size_t)2 << 20)
#define SPANS_MAX 8192

static const char prose[] =
    "The quick brown fox jumps over the lazy dog and says nothing of note. ";
static const char chinese[] =
    "路由器像引擎一样读取提示因此知道哪个工作者持有最长的前缀";
static const char json[] = "{\\\"a\\\":[1,-2.5e3],\\\"b\\\":{\\\"c\\\":null}} ";
static const char code[] =
    "for (int i = 0; i < n; ++i) { x[i] += 0x1F; }\\n\\t";

struct bench {
    struct local_model *model;
    struct local_turns *turns;
    struct local_answer answer;
    struct scan_span spans[SPANS_MAX];
    char body[BODY_MAX];
    size_t len;
    uint64_t names[SPANS_MAX];
    uint32_t count;
    uint64_t talk;
};

static double
now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void
add(struct bench *b, const char *text)
{
    size_t len = strlen(text);

    CHECK(b->len + len < BODY_MAX);
    memcpy(b->body + b->len, text, len);
    b->len += len;
}

static void
begin(struct bench *b)
{
    b->len = 0;
    b->count = 0;
    b->talk += SPANS_MAX; /* another conversation, of other names */
    add(b, "{\"messages\":[");
}

/* A message of about so many bytes of that text. */
static void
message(struct bench *b, const char *text, size_t bytes)
{
    size_t end;

    add(b, b->count != 0 ? "," : "");
    add(b, b->count % 2 == 0 ? "{\"role\":\"user\",\"content\":\""
                             : "{\"role\":\"assistant\",\"content\":\"");
    for (end = b->len + bytes; b->len + strlen(text) <= end;) {
        add(b, text);
    }
    add(b, "\"}");
    b->count++;
    b->names[b->count - 1] = b->talk + b->count;
}

/* The outcome, and the time in *us. */
static int
ask(struct bench *b, const struct local_patience *patience,
    struct local_turns *turns, double *us)
{
    struct scan_limits limits = {.depth_max = 64, .spans_max = SPANS_MAX};
    struct scan scan = {.spans = b->spans, .api = SCAN_API_CHAT};
    struct local_question q = {.model = b->model,
                               .kind = ENGINE_VLLM,
                               .names = b->names,
                               .names_count = b->count};

    add(b, "]}");
    b->len -= 2;
    q.body = (struct slice){b->body, b->len + 2};
    CHECK(scan_body(q.body.ptr, q.body.len, &limits, &scan) == 0);
    CHECK(local_question_read(&q, &scan));
    double start = now_us();
    int outcome = local_tokens(&q, patience, turns, &b->answer);
    *us = now_us() - start;
    CHECK(outcome != LOCAL_E_REFUSED);
    return outcome;
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Median and the longest of ROUNDS. */
static void
print(const char *what, size_t bytes, size_t ids, double us[ROUNDS])
{
    qsort(us, ROUNDS, sizeof us[0], compare);
    printf("%-34s %8zu %8zu %9.0f %9.0f\n", what, bytes, ids, us[ROUNDS / 2],
           us[ROUNDS - 1]);
}

static void
first_turns(struct bench *b, const char *name, const char *text)
{
    static const size_t sizes[] = {2000, 32000, 400000};
    struct local_patience patience = LOCAL_PATIENT;
    double us[ROUNDS];
    char what[64];

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int r = 0; r < ROUNDS; r++) {
            begin(b);
            message(b, text, sizes[i]);
            (void)!ask(b, &patience, NULL, &us[r]);
        }
        (void)snprintf(what, sizeof what, "first turn, %s", name);
        print(what, b->len, b->answer.ids.count, us);
    }
}

/* Each turn adds 1 KB to 400 KB that were there. */
static void
next_turns(struct bench *b, const char *name, const char *text)
{
    struct local_patience patience = LOCAL_PATIENT;
    double us[ROUNDS];
    double unused;
    char what[64];

    begin(b);
    for (int i = 0; i < 199; i++) {
        message(b, text, 2000);
    }
    (void)!ask(b, &patience, b->turns, &unused);
    for (int r = 0; r < ROUNDS; r++) {
        message(b, text, 1000);
        message(b, text, 1000);
        (void)!ask(b, &patience, b->turns, &us[r]);
    }
    (void)snprintf(what, sizeof what, "next turn, %s", name);
    print(what, b->len, b->answer.ids.count, us);
}

/* The largest prompts that are made at once: one message, and many. Also those
 * that turn out to be too much. */
static void
at_once(struct bench *b, const char *name, const char *text, size_t piece)
{
    struct local_patience patience = LOCAL_AT_ONCE;
    double worst = 0;
    double worst_later = 0;
    size_t largest = 0;

    for (size_t bytes = 500; bytes < patience.body_bytes; bytes += 500) {
        for (int r = 0; r < 5; r++) {
            double us;
            begin(b);
            while (b->len < bytes) {
                message(b, text, piece != 0 ? piece : bytes);
            }
            if (b->len + 2 > patience.body_bytes) {
                continue;
            }
            if (ask(b, &patience, NULL, &us) == 0) {
                worst = us > worst ? us : worst;
                largest = b->len;
            } else {
                worst_later = us > worst_later ? us : worst_later;
            }
        }
    }
    printf("at once, %-25s %8zu %8s %9.0f %9.0f\n", name, largest, "", worst,
           worst_later);
}

int
main(int argc, char **argv)
{
    struct bench *b = calloc(1, sizeof *b);
    struct config_tokens config = {.dir = ""};
    struct local_table *table;

    if (argc != 2 || b == NULL || strlen(argv[1]) >= sizeof config.dir) {
        (void)fprintf(stderr, "usage: bench_local DIR\n");
        return 2;
    }
    memcpy(config.dir, argv[1], strlen(argv[1]));
    if (local_load(&config, NULL, &table) != 0 || table->count == 0 ||
        local_model_why(table->model[0])[0] != '\0' ||
        local_turns_new(&b->turns, (size_t)64 << 20) != 0) {
        (void)fprintf(stderr, "bench_local: no model in %s\n", argv[1]);
        return 2;
    }
    b->model = table->model[0];
    b->answer.ids.max = LOCAL_IDS_MAX;
    printf("%-34s %8s %8s %9s %9s\n", "us; bytes of the body", "bytes", "ids",
           "median", "longest");
    first_turns(b, "prose", prose);
    first_turns(b, "code", code);
    first_turns(b, "Chinese", chinese);
    next_turns(b, "prose", prose);
    next_turns(b, "Chinese", chinese);
    printf("%-34s %8s %8s %9s %9s\n", "longest us of", "bytes", "", "made",
           "for later");
    at_once(b, "prose", prose, 0);
    at_once(b, "Chinese", chinese, 0);
    at_once(b, "JSON", json, 0);
    at_once(b, "many short messages", "a", 1);
    tokenizer_ids_fini(&b->answer.ids);
    local_turns_free(b->turns);
    local_table_free(table, NULL);
    free(b);
    return 0;
}
