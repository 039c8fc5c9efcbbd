/*
 * The body scanner against a real JSON library: random bodies with everything
 * that JSON allows (key order and spelling, duplicates of another type, decoys
 * at other levels, surrogates, white space), damaged ones, and, where the
 * traces are, real conversations. Each kernel, at a random place against the
 * blocks.
 *
 *   property_scan BODIES SEED [TRACES]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/buf.h"
#include "index/base/rng.h"
#include "node/scan/scan_fault_internal.h"
#include "node/scan/scan_walk_internal.h"
#include "scan_oracle.h"

#define BODY_BYTES (1U << 20)

struct gen {
    struct rng rng;
    struct buf buf;
    unsigned blanks; /* white space: 0 none, 1 Python's, 2 wild */
};

static uint64_t seed_now;
static unsigned long scanned, accepted;

static uint64_t
below(struct gen *g, uint64_t n)
{
    return rng_below(&g->rng, n);
}

static bool
chance(struct gen *g, unsigned percent)
{
    return below(g, 100) < percent;
}

static void
add(struct gen *g, const char *text)
{
    buf_add_text(&g->buf, text);
}

static void
blank(struct gen *g)
{
    static const char *const kinds[] = {" ", "\n", "\t", "\r\n", "  "};

    if (g->blanks == 2 && chance(g, 30)) {
        unsigned n = chance(g, 5) ? 70 : (unsigned)below(g, 4);
        while (n-- > 0) {
            add(g, kinds[below(g, 5)]);
        }
    }
}

/* , or : or a bracket, in the body's manner. */
static void
mark(struct gen *g, const char *c)
{
    blank(g);
    add(g, c);
    if (g->blanks == 1 && (c[0] == ',' || c[0] == ':')) {
        add(g, " ");
    }
    blank(g);
}

static void
string_piece(struct gen *g)
{
    static const char *const pieces[] = {
        "word ",
        "a",
        "\\n",
        "\\\"",
        "\\\\",
        "\\/",
        "\\t\\r\\b\\f",
        "\\u0041",
        "\\u00e9",
        "\\uFFFD",
        "\\ud83d\\ude00",
        "\\uDBFF\\udfff",
        "\xc3\xa9",
        "\xe4\xb8\xad",
        "\xf0\x9f\x98\x80",
        "\xed\x9f\xbf",
        "\xe0\xa4\x85",
        "\xf4\x8f\xbf\xbf",
        "{\\\"model\\\":",
        "[1,2]",
        "\\u0000",
        "\x7f",
        "://",
        "\\\\\\\"",
    };

    add(g, pieces[below(g, sizeof(pieces) / sizeof(pieces[0]))]);
}

static void
string(struct gen *g)
{
    unsigned n = chance(g, 10) ? (unsigned)below(g, 80) : (unsigned)below(g, 6);

    n = chance(g, 1) ? 2000 : n;
    add(g, "\"");
    while (n-- > 0) {
        if (chance(g, 60)) {
            buf_printf(&g->buf, "%.*s", (int)below(g, 20),
                       "abcdefghijklmnopqrstuvwxyz");
        } else {
            string_piece(g);
        }
    }
    add(g, "\"");
}

/* The name as a key, sometimes spelt with escapes. */
static void
key(struct gen *g, const char *name)
{
    bool odd = chance(g, 15);

    add(g, "\"");
    for (; *name != '\0'; name++) {
        if (odd && chance(g, 40)) {
            buf_printf(&g->buf, chance(g, 50) ? "\\u%04x" : "\\u%04X", *name);
        } else {
            buf_printf(&g->buf, "%c", *name);
        }
    }
    add(g, "\"");
    mark(g, ":");
}

static void
number(struct gen *g)
{
    static const char *const odd[] = {"0",
                                      "-1",
                                      "1.5",
                                      "-12.25e-3",
                                      "1e2",
                                      "128.0",
                                      "2E+3",
                                      "0.0",
                                      "0e0",
                                      "9007199254740993",
                                      "-9223372036854775808",
                                      "123456789012345678"};

    if (chance(g, 40)) {
        add(g, odd[below(g, sizeof(odd) / sizeof(odd[0]))]);
    } else {
        buf_printf(&g->buf, "%u", (unsigned)below(g, 200000));
    }
}

static const char *
any_key(struct gen *g)
{
    static const char *const keys[] = {
        "model",
        "messages",
        "content",
        "role",
        "text",
        "type",
        "tools",
        "stream",
        "prompt",
        "max_tokens",
        "x",
        "",
        "url",
        "include_usage",
        "description",
        "properties",
        "image_url",
        "user",
        "enum",
        "required",
        "very_long_key_that_is_longer_than_any_name_the_scanner_asks_for_ok"};

    return keys[below(g, sizeof(keys) / sizeof(keys[0]))];
}

/* Any JSON. Recursion is bounded by depth. */
static void
value(struct gen *g, unsigned depth)
{
    static const char *const literals[] = {"true", "false", "null"};
    unsigned n = depth == 0 ? 0 : (unsigned)below(g, 5);

    switch (below(g, depth == 0 ? 3 : 5)) {
    case 0:
        string(g);
        break;
    case 1:
        number(g);
        break;
    case 2:
        add(g, literals[below(g, 3)]);
        break;
    case 3:
        mark(g, "[");
        for (unsigned i = 0; i < n; i++) {
            if (i != 0) {
                mark(g, ",");
            }
            value(g, depth - 1);
        }
        mark(g, "]");
        break;
    default:
        mark(g, "{");
        for (unsigned i = 0; i < n; i++) {
            if (i != 0) {
                mark(g, ",");
            }
            key(g, any_key(g));
            value(g, depth - 1);
        }
        mark(g, "}");
        break;
    }
}

/* n elements made by element(). */
static void
list(struct gen *g, unsigned n, void (*element)(struct gen *g))
{
    mark(g, "[");
    for (unsigned i = 0; i < n; i++) {
        if (i != 0) {
            mark(g, ",");
        }
        if (chance(g, 4)) {
            value(g, 2);
        } else {
            element(g);
        }
    }
    mark(g, "]");
}

struct field {
    const char *name;
    void (*make)(struct gen *g);
};

/* An object of random fields in random order, some of them twice, some of a
 * wrong type, some unknown. */
static void
object(struct gen *g, const struct field *fields, unsigned count, unsigned n)
{
    mark(g, "{");
    for (unsigned i = 0; i < n; i++) {
        const struct field *f = &fields[below(g, count)];
        if (i != 0) {
            mark(g, ",");
        }
        if (chance(g, 10)) {
            key(g, any_key(g));
            value(g, 3);
        } else {
            key(g, f->name);
            if (chance(g, 10)) {
                value(g, 2);
            } else {
                f->make(g);
            }
        }
    }
    mark(g, "}");
}

static void
truth(struct gen *g)
{
    add(g, chance(g, 60) ? "true" : chance(g, 80) ? "false" : "null");
}

static void
part_type(struct gen *g)
{
    static const char *const types[] = {
        "text",        "text",        "input_text", "output_text", "refusal",
        "image_url",   "input_image", "audio_url",  "video_url",   "file",
        "input_audio", "image",       "document",   "thinking"};

    buf_printf(&g->buf, "\"%s\"",
               types[below(g, sizeof(types) / sizeof(types[0]))]);
}

static void
media(struct gen *g)
{
    static const struct field fields[] = {{"url", string},
                                          {"data", string},
                                          {"file_data", string},
                                          {"file_id", string},
                                          {"detail", string}};

    if (chance(g, 30)) {
        string(g);
    } else {
        object(g, fields, 5, (unsigned)below(g, 4));
    }
}

static void
part(struct gen *g)
{
    static const struct field fields[] = {
        {"type", part_type},  {"type", part_type},  {"text", string},
        {"text", string},     {"refusal", string},  {"image_url", media},
        {"audio_url", media}, {"video_url", media}, {"input_audio", media},
        {"file", media},      {"source", media},    {"uuid", string}};

    if (chance(g, 20)) {
        string(g);
    } else {
        object(g, fields, 12, (unsigned)below(g, 6));
    }
}

static void
content(struct gen *g)
{
    if (chance(g, 50)) {
        string(g);
    } else if (chance(g, 80)) {
        list(g, (unsigned)below(g, 5), part);
    } else {
        add(g, "null");
    }
}

static void
raw(struct gen *g)
{
    mark(g, "[");
    if (chance(g, 90)) {
        value(g, 6);
    }
    mark(g, "]");
}

static void
message(struct gen *g)
{
    static const struct field fields[] = {
        {"role", string},     {"role", string},
        {"content", content}, {"content", content},
        {"name", string},     {"reasoning_content", string},
        {"tool_calls", raw},  {"function_call", raw},
        {"reasoning", string}};

    object(g, fields, 9, (unsigned)below(g, 6));
}

static void
messages(struct gen *g)
{
    list(g, (unsigned)below(g, 6), message);
}

static void
id(struct gen *g)
{
    buf_printf(&g->buf, "%u", (unsigned)below(g, 130000));
}

static void
id_list(struct gen *g)
{
    mark(g, "[");
    for (unsigned i = 0, n = (unsigned)below(g, 60); i < n; i++) {
        if (i != 0) {
            mark(g, ",");
        }
        if (chance(g, 99)) {
            id(g);
        } else {
            number(g);
        }
    }
    mark(g, "]");
}

static void
prompt(struct gen *g)
{
    switch (below(g, 5)) {
    case 0:
        string(g);
        break;
    case 1:
        list(g, (unsigned)below(g, 4), string);
        break;
    case 2:
        id_list(g);
        break;
    case 3:
        list(g, (unsigned)below(g, 4), id_list);
        break;
    default:
        messages(g);
        break;
    }
}

static void
stream_options(struct gen *g)
{
    static const struct field fields[] = {{"include_usage", truth},
                                          {"continuous_usage_stats", truth},
                                          {"other", truth}};

    if (chance(g, 10)) {
        value(g, 1);
        return;
    }
    object(g, fields, 3, (unsigned)below(g, 3));
}

static void
any(struct gen *g)
{
    value(g, 3);
}

static void
body(struct gen *g)
{
    static const struct field fields[] = {{"model", string},
                                          {"messages", messages},
                                          {"messages", messages},
                                          {"prompt", prompt},
                                          {"input", prompt},
                                          {"tools", raw},
                                          {"functions", raw},
                                          {"system", content},
                                          {"instructions", content},
                                          {"stream", truth},
                                          {"stream_options", stream_options},
                                          {"echo", truth},
                                          {"logprobs", truth},
                                          {"top_logprobs", truth},
                                          {"prompt_logprobs", truth},
                                          {"max_tokens", number},
                                          {"max_completion_tokens", number},
                                          {"max_output_tokens", number},
                                          {"priority", number},
                                          {"n", number},
                                          {"user", string},
                                          {"cache_salt", string},
                                          {"session_id", string},
                                          {"chat_template", any},
                                          {"chat_template_kwargs", any},
                                          {"reasoning_effort", any},
                                          {"tool_choice", any},
                                          {"documents", any},
                                          {"add_generation_prompt", truth},
                                          {"continue_final_message", truth},
                                          {"add_special_tokens", any},
                                          {"mm_processor_kwargs", any},
                                          {"media_io_kwargs", any},
                                          {"truncate_prompt_tokens", number},
                                          {"task", any}};

    buf_clear(&g->buf);
    g->blanks = (unsigned)below(g, 3);
    blank(g);
    object(g, fields, 35, 1 + (unsigned)below(g, 12));
    blank(g);
}

static void
die(const char *kernel, const struct buf *b, const char *why)
{
    printf("seed %llu, kernel %s: %s\n", (unsigned long long)seed_now, kernel,
           why);
    fwrite(b->ptr, 1, b->len, stdout);
    printf("\n");
    exit(1);
}

static bool
same_options(const struct scan *a, const struct scan *b)
{
    bool all = true;

    for (unsigned i = 0; i < SCAN_OPTIONS; i++) {
        const struct scan_text *x = &a->options[i];
        const struct scan_text *y = &b->options[i];
        all = all && x->present == y->present && x->at == y->at &&
              x->len == y->len;
    }
    return all;
}

static bool
same(const struct scan *a, const struct scan *b)
{
    return a->spans_count == b->spans_count &&
           a->spans_truncated == b->spans_truncated && a->shape == b->shape &&
           a->prompts == b->prompts && a->fault_at == b->fault_at &&
           a->max_tokens == b->max_tokens && a->model.at == b->model.at &&
           a->model.len == b->model.len &&
           a->model.escaped == b->model.escaped && same_options(a, b) &&
           (a->spans_count == 0 ||
            memcmp(a->spans, b->spans, a->spans_count * sizeof(*a->spans)) ==
                0);
}

/* What was refused at fault_at can go on until there. */
static void
check_fault(const struct buf *b, const struct scan_limits *limits,
            const struct scan *scan)
{
    struct scan_fault fault;
    int outcome =
        scan_fault_find(b->ptr, scan->fault_at, limits->depth_max, &fault);

    if (scan->fault == NULL || strcmp(scan->fault, SCAN_DISPUTED) == 0) {
        die("any", b, "no fault is named, or the two judges disagree");
    }
    if (scan->fault_at > b->len ||
        (outcome == SCAN_E_SYNTAX && fault.at != scan->fault_at)) {
        die("any", b, "fault_at is not where it goes wrong");
    }
}

/* Every kernel, in memory that ends with the body; room for a few spans. */
static void
check(struct gen *g)
{
    static struct scan_span first_spans[ORACLE_SPANS];
    static struct scan_span spans[ORACLE_SPANS];
    struct scan_limits limits = {.depth_max = 64,
                                 .spans_max = ORACLE_SPANS,
                                 .kept_count = 2,
                                 .kept = oracle_kept};
    struct scan first = {.spans = first_spans};
    const struct scan_kernel *kernel;
    const char *why = NULL;
    int outcome = -1;

    if (chance(g, 20)) {
        limits.spans_max = (uint32_t)below(g, 8);
    }
    for (unsigned i = 0; (kernel = scan_kernel_nth(i)) != NULL; i++) {
        struct scan scan = {.spans = spans};
        char *copy = malloc(g->buf.len + 1);
        struct slice in = {.ptr = copy + 1, .len = g->buf.len};
        if (copy == NULL || !kernel->usable()) {
            free(copy);
            continue;
        }
        memset(spans, 0, sizeof(spans[0]) * limits.spans_max);
        memcpy(copy + 1, g->buf.ptr, g->buf.len);
        int got = scan_body_with(kernel, in, &limits, &scan);
        if (outcome < 0) {
            outcome = got;
            memcpy(first_spans, spans, sizeof(spans[0]) * limits.spans_max);
            first = scan;
            first.spans = first_spans;
            if (!scan_oracle_agrees(in.ptr, in.len, got, &scan, &why)) {
                die(kernel->name, &g->buf, why);
            }
        } else if (got != outcome || !same(&first, &scan)) {
            die(kernel->name, &g->buf, "differs from the first kernel");
        }
        free(copy);
    }
    scanned++;
    accepted += outcome == 0;
    if (outcome != 0) {
        check_fault(&g->buf, &limits, &first);
    }
}

/* A byte changed, dropped or put in, or the end cut off. */
static void
damage(struct gen *g)
{
    static const char likely[] = "{}[]\",:\\ \n0-.eu1t\x80\xe4\x01";
    struct buf *b = &g->buf;
    size_t at = (size_t)below(g, b->len);
    char c = likely[below(g, sizeof(likely) - 1)];

    switch (below(g, 5)) {
    case 0:
        b->ptr[at] = c;
        break;
    case 1:
        b->ptr[at] = (char)below(g, 256);
        break;
    case 2:
        memmove(b->ptr + at, b->ptr + at + 1, b->len - at - 1);
        b->len--;
        break;
    case 3:
        if (buf_reserve(b, 1) != NULL) {
            memmove(b->ptr + at + 1, b->ptr + at, b->len - at);
            b->ptr[at] = c;
            b->len++;
        }
        break;
    default:
        b->len = at;
        break;
    }
}

/* Moves the body against the blocks and the windows. */
static void
shift(struct gen *g)
{
    size_t window = SCAN_BLOCK * SCAN_WINDOW;
    size_t n = (size_t)below(g, chance(g, 30) ? window : 64);

    if (buf_reserve(&g->buf, n) != NULL) {
        memmove(g->buf.ptr + n, g->buf.ptr, g->buf.len);
        memset(g->buf.ptr, ' ', n);
        g->buf.len += n;
    }
}

static void
random_bodies(struct gen *g, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++) {
        seed_now = seed + i;
        rng_init(&g->rng, seed_now);
        body(g);
        if (chance(g, 50)) {
            shift(g);
        }
        check(g);
        for (unsigned k = 0; k < 3 && g->buf.len != 0; k++) {
            damage(g);
            check(g);
        }
    }
}

/* Each line of a trace is an object; its list of messages, if it has one, is
 * the prompt, and all of it a tool. */
static void
trace_line(struct gen *g, char *line)
{
    char *list = strstr(line, "\"traj\":");

    buf_clear(&g->buf);
    add(g, "{\"model\":\"m\",\"stream\":true");
    if (list != NULL && strrchr(list, '}') != NULL) {
        *strrchr(list, '}') = '\0';
        add(g, ",\"messages\":");
        add(g, list + strlen("\"traj\":"));
    } else {
        add(g, ",\"prompt\":\"p\",\"tools\":[");
        add(g, line);
        add(g, "]");
    }
    add(g, "}");
    check(g);
}

static bool
trace(struct gen *g, const char *directory, const char *name)
{
    char command[1024];
    char *line = NULL;
    size_t size = 0;
    unsigned long before = accepted;

    snprintf(command, sizeof(command), "zstd -dcq '%s/%s' 2>/dev/null",
             directory, name);
    FILE *pipe = popen(command, "r");
    while (pipe != NULL && getline(&line, &size, pipe) > 0) {
        trace_line(g, line);
    }
    free(line);
    return pipe != NULL && pclose(pipe) == 0 && accepted > before;
}

int
main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 4000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct gen g = {.blanks = 0};

    buf_init(&g.buf, BODY_BYTES);
    random_bodies(&g, count, seed);
    printf("%lu bodies, %lu of them good\n", scanned, accepted);
    if (accepted < count / 2) {
        printf("too few good bodies to mean anything\n");
        return 1;
    }
    static const char *const traces[] = {
        "taubench_airline_trials_even.jsonl.zst", "qmsum_val.jsonl.zst",
        "gsm8k_train2000.jsonl.zst"};
    for (unsigned i = 0; argc > 3 && i < 3; i++) {
        scanned = accepted = 0;
        if (trace(&g, argv[3], traces[i])) {
            printf("%s: %lu conversations\n", traces[i], scanned);
        } else {
            printf("%s: skipped, no such trace or no zstd\n", traces[i]);
        }
    }
    buf_fini(&g.buf);
    return 0;
}
