/* `kvasir route-test`: which rule of a content.file chooses the model of each
 * request on stdin. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "node/base/flags.h"
#include "node/cli/cli_print_internal.h"
#include "node/cli/cli_vectors_internal.h"
#include "node/cli/cmd_internal.h"
#include "node/config/config_content.h"
#include "node/scan/scan.h"

#define BODY_MAX  ((size_t)64 << 20)
#define SPANS_MAX 65536U
#define DEPTH_MAX 256U
#define SHOWN_MAX 20U /* lines that are not as expected */
#define LABEL_MAX 256U
#define ROWS_MAX  (CONTENT_RULES_MAX + CONTENT_NAMES_MAX)

static const char help[] =
    "usage: kvasir route-test --rules FILE [--tenant NAME]\n"
    "                         [--embeddings URL --model NAME] < REQUESTS\n"
    "\n"
    "Shows which rule of a content.file chooses the model of each request, "
    "and\n"
    "asks no node, and no engine but the one that is named. Each line on stdin "
    "is a request's body as\n"
    "clients send it; a line whose model is none of the file's names is "
    "judged\n"
    "as one for the file's first name. A line may have a member \"expected\": "
    "the\n"
    "rule (none: no rule fits) or the model that it should get.\n"
    "\n"
    "  --rules FILE   the rules, as content.file names them\n"
    "  --tenant NAME  whose requests they are, for rules with tenants\n"
    "  --embeddings URL\n"
    "                 an engine with /v1/embeddings, for rules with like; "
    "without it\n"
    "                 these fit nothing\n"
    "  --model NAME   its model for that\n"
    "  -h, --help     this text\n"
    "\n"
    "Exit code 1: a request was not as expected.\n"
    "\n"
    "the file's form; all conditions of a rule must hold, of a list one does:\n"
    "  auto:                        # what clients ask for\n"
    "    model: qwen3-8b            # where no rule fits; may be an alias\n"
    "    look: first                # at the user's first message, or the "
    "last\n"
    "    rules:                     # the first that fits counts\n"
    "      - name: proofs\n"
    "        words: [prove]         # in any case of letters; or\n"
    "        regex: ['lemma \\d+']  # the same (PCRE2)\n"
    "        has: [code]            # tools, media, email, phone, card, iban,\n"
    "                               # jailbreak\n"
    "        languages: [en, de]    # ISO 639-1, or unknown\n"
    "        longer: 100            # bytes of all texts of the prompt\n"
    "        shorter: 20000\n"
    "        tenants: [shop]        # of keys.file\n"
    "        like: [When is x zero?, What is 3 times 4?]  # of rules with "
    "like, the\n"
    "                               # nearest to these (content.embeddings_"
    "model)\n"
    "        model: deepseek-r1     # absent: the name's own\n"
    "        set: {reasoning_effort: high}  # for bodies without that member\n"
    "\n"
    "example:\n"
    "  echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Prove it.\"}],\n"
    "    \"expected\":\"proofs\"}' | tr -d '\\n' |\n"
    "    kvasir route-test --rules content.yaml\n";

struct request {
    const char *rules;
    const char *tenant;
    const char *embeddings;
    const char *model;
    bool help;
};

#define AT(member) offsetof(struct request, member)

static const struct flag table[] = {
    {.name = "rules", .kind = FLAG_ANY, .at = AT(rules)},
    {.name = "tenant", .kind = FLAG_ANY, .at = AT(tenant)},
    {.name = "embeddings", .kind = FLAG_ANY, .at = AT(embeddings)},
    {.name = "model", .kind = FLAG_ANY, .at = AT(model)},
    {.name = "help", .kind = FLAG_SWITCH, .at = AT(help), .letter = 'h'},
};

static const struct flags flags = {table, sizeof table / sizeof table[0]};

/* What became of all lines so far. */
struct testing {
    const struct request *request;
    struct content *content;
    struct content_scratch *scratch;
    struct cli_vectors vectors;
    struct scan_span *spans;
    uint64_t line;
    struct {
        const char *name, *rule, *model;
        uint64_t requests, expected, met;
    } row[ROWS_MAX];
    uint32_t rows;
    uint64_t expected, met, too_hard;
    uint64_t likened,
        unlikened; /* with a vector; without one that was wanted */
    uint64_t total_ns, worst_ns;
    struct buf wrong; /* lines that tell what was not as expected */
};

static void
take(struct testing *t, const struct content_verdict *verdict,
     const char *label)
{
    const char *rule = verdict->rule[0] != '\0' ? verdict->rule : "none";
    uint32_t i = 0;

    while (i < t->rows && (strcmp(t->row[i].rule, rule) != 0 ||
                           strcmp(t->row[i].name, verdict->name) != 0)) {
        i++;
    }
    CHECK(i < ROWS_MAX);
    t->rows += i == t->rows;
    t->row[i].name = verdict->name;
    t->row[i].rule = rule;
    t->row[i].model = verdict->model;
    t->row[i].requests++;
    t->too_hard += verdict->seen.too_hard;
    t->likened += verdict->seen.like == CONTENT_LIKE_KNOWN;
    t->unlikened += verdict->seen.like > CONTENT_LIKE_KNOWN;
    if (label[0] == '\0') {
        return;
    }
    bool met = strcmp(label, rule) == 0 || strcmp(label, verdict->model) == 0;
    t->row[i].expected++;
    t->row[i].met += met;
    t->expected++;
    t->met += met;
    if (!met && t->expected - t->met <= SHOWN_MAX) {
        buf_printf(&t->wrong, "line %" PRIu64 ": %s (%s), expected %s\n",
                   t->line, rule, verdict->model, label);
    }
}

/* The text of a member, or "". */
static void
label_of(const struct scan_text *text, const char *body, char label[LABEL_MAX])
{
    label[0] = '\0';
    if (text->present && text->len < LABEL_MAX) {
        label[scan_unescape(body + text->at, text->len, label)] = '\0';
    }
}

/* Judges it, and once more if it wants a vector; the time that it takes counts
 * without the engine's. */
static void
judge_asked(struct testing *t, struct slice name, struct content_asked *asked,
            struct content_verdict *verdict)
{
    struct text_vector *vector = NULL;
    uint64_t took = 0;

    for (unsigned i = 0; i < 2; i++) {
        uint64_t from = uv_hrtime();
        bool judged =
            content_judge(t->content, t->scratch, name, asked, verdict);
        took += uv_hrtime() - from;
        CHECK(judged);
        if (verdict->seen.like != CONTENT_LIKE_WANTED) {
            break;
        }
        vector = cli_vectors_ask(&t->vectors, verdict->likened);
        asked->vector = vector;
        asked->like = vector != NULL ? CONTENT_LIKE_KNOWN : CONTENT_LIKE_FAILED;
    }
    free(vector);
    asked->vector = NULL;
    t->total_ns += took;
    t->worst_ns = took > t->worst_ns ? took : t->worst_ns;
}

/* False: the line is no request; a fault was told. */
static bool
judge(struct testing *t, struct slice line)
{
    const struct slice kept[] = {SLICE("expected")};
    struct scan_limits limits = {.depth_max = DEPTH_MAX,
                                 .spans_max = SPANS_MAX,
                                 .kept_count = 1,
                                 .kept = kept};
    struct scan scan = {.spans = t->spans};
    struct content_asked asked = {.body = line, .scan = &scan};
    struct content_verdict verdict;
    char label[LABEL_MAX];

    if (scan_body(line.ptr, line.len, &limits, &scan) != 0) {
        (void)fprintf(stderr,
                      "kvasir route-test: line %" PRIu64 ", byte %zu: %s\n",
                      t->line, scan.fault_at, scan.fault);
        return false;
    }
    struct slice name = {line.ptr + scan.model.at, scan.model.len};
    if (!scan.model.present || !content_has(t->content, name)) {
        name = slice_of(content_name(t->content, 0));
    }
    if (t->request->tenant != NULL) {
        asked.tenant = slice_of(t->request->tenant);
    }
    if (t->request->embeddings != NULL) {
        asked.like = CONTENT_LIKE_WANTED;
    }
    judge_asked(t, name, &asked, &verdict);
    label_of(&scan.kept[0], line.ptr, label);
    take(t, &verdict, label);
    return true;
}

static int
judge_all(struct testing *t)
{
    char *bytes = NULL;
    size_t room = 0;
    ssize_t len;
    int code = CMD_FINE;

    while (code == CMD_FINE && (len = getline(&bytes, &room, stdin)) >= 0) {
        struct slice line = slice_trim((struct slice){bytes, (size_t)len});
        t->line++;
        if (line.len > BODY_MAX) {
            (void)fprintf(stderr,
                          "kvasir route-test: line %" PRIu64 " is too long\n",
                          t->line);
            code = CMD_USAGE;
        } else if (line.len != 0 && !judge(t, line)) {
            code = CMD_USAGE;
        }
    }
    free(bytes);
    return code;
}

static void
put_table(const struct testing *t, struct buf *out)
{
    uint64_t requests = 0;

    buf_printf(out, "%-16s %-20s %-24s %8s  %s\n", "NAME", "RULE", "MODEL",
               "REQUESTS", "AS EXPECTED");
    for (uint32_t i = 0; i < t->rows; i++) {
        buf_printf(out, "%-16s %-20s %-24s %8" PRIu64, t->row[i].name,
                   t->row[i].rule, t->row[i].model, t->row[i].requests);
        if (t->row[i].expected != 0) {
            buf_printf(out, "  %" PRIu64 " of %" PRIu64, t->row[i].met,
                       t->row[i].expected);
        }
        buf_add_text(out, "\n");
        requests += t->row[i].requests;
    }
    if (requests == 0) {
        return;
    }
    buf_printf(out,
               "\n%" PRIu64 " requests, %.1f us each, %.1f us at most; %" PRIu64
               " patterns took too many steps\n",
               requests, (double)t->total_ns / 1e3 / (double)requests,
               (double)t->worst_ns / 1e3, t->too_hard);
    if (t->likened + t->unlikened != 0) {
        buf_printf(out,
                   "%" PRIu64 " likened to examples, %" PRIu64
                   " without a vector\n",
                   t->likened, t->unlikened);
    }
    if (t->expected != 0) {
        buf_printf(out, "%" PRIu64 " of %" PRIu64 " as expected (%.1f %%)\n",
                   t->met, t->expected,
                   100.0 * (double)t->met / (double)t->expected);
    }
    buf_add_slice(out, buf_slice(&t->wrong));
    if (t->expected - t->met > SHOWN_MAX) {
        buf_printf(out, "... and %" PRIu64 " more\n",
                   t->expected - t->met - SHOWN_MAX);
    }
}

/* Asks for the examples' vectors. False: a fault was told. */
static bool
liken(struct testing *t)
{
    struct text_vector *vectors[CONTENT_EXAMPLES_MAX];
    uint32_t count = content_examples(t->content);
    uint32_t have = 0;

    if (t->request->embeddings == NULL || count == 0) {
        return true;
    }
    while (have < count &&
           (vectors[have] = cli_vectors_ask(
                &t->vectors, content_example(t->content, have))) != NULL) {
        have++;
    }
    bool good = have == count && content_set_vectors(t->content, vectors) == 0;
    for (uint32_t i = 0; i < have; i++) {
        free(vectors[i]);
    }
    if (!good) {
        (void)fprintf(stderr,
                      "kvasir route-test: %s tells no vectors of the examples: "
                      "%s\n",
                      t->request->embeddings,
                      have == count ? "they differ in size or have no middle"
                                    : t->vectors.why);
    }
    return good;
}

static int
run(struct testing *t)
{
    struct buf out;

    t->scratch = content_scratch_new();
    t->spans = calloc(SPANS_MAX, sizeof *t->spans);
    if (t->scratch == NULL || t->spans == NULL) {
        (void)fprintf(stderr, "kvasir route-test: out of memory\n");
        return CMD_FAILED;
    }
    int code = liken(t) ? judge_all(t) : CMD_FAILED;
    if (code != CMD_FINE) {
        return code;
    }
    buf_init(&out, (size_t)1 << 20);
    put_table(t, &out);
    code = cli_print_buf("route-test", &out);
    buf_fini(&out);
    return code == CMD_FINE && t->met != t->expected ? CMD_FAILED : code;
}

int
cmd_route_test(char *const *argv)
{
    struct request request = {.rules = NULL};
    struct config_errors errors;
    struct content *content = NULL;
    int code = CMD_USAGE;

    if (!cli_parse("route-test", &flags, &request, argv)) {
        return CMD_USAGE;
    }
    if (request.help) {
        return cli_print("route-test", SLICE(help));
    }
    if (request.rules == NULL) {
        (void)fprintf(stderr, "kvasir route-test: --rules is missing (see "
                              "kvasir route-test --help)\n");
        return CMD_USAGE;
    }
    if ((request.embeddings != NULL) != (request.model != NULL)) {
        (void)fprintf(stderr, "kvasir route-test: --embeddings and --model go "
                              "together\n");
        return CMD_USAGE;
    }
    config_errors_init(&errors);
    if (config_content_load(request.rules, &content, &errors) != 0) {
        (void)fprintf(stderr, "%.*s", (int)errors.text.len, errors.text.ptr);
    } else {
        struct testing *t = calloc(1, sizeof *t);
        CHECK(t != NULL);
        t->request = &request;
        t->content = content;
        buf_init(&t->wrong, (size_t)64 << 10);
        if (cli_vectors_open(&t->vectors, request.embeddings, request.model)) {
            code = run(t);
        }
        cli_vectors_close(&t->vectors);
        buf_fini(&t->wrong);
        content_scratch_free(t->scratch);
        free(t->spans);
        free(t);
    }
    content_free(content);
    config_errors_fini(&errors);
    return code;
}
