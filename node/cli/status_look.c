/* What of a node's status needs a look, a line each. */
#include "node/cli/status_internal.h"

struct looks {
    struct buf *out;
    uint32_t count;
};

/* Begins a line about somebody. False: there are too many. */
static bool
begin(struct looks *looks, struct slice who)
{
    if (looks->count++ == 0) {
        buf_add_text(looks->out, "\nlook at\n");
    }
    if (looks->count > STATUS_LOOKS_MAX) {
        return false;
    }
    buf_add_text(looks->out, "  ");
    status_put(looks->out, who);
    return true;
}

static bool
says(const struct json_value *object, const char *key, const char *what)
{
    return slice_equal(status_text(object, key), slice_of(what));
}

static void
look_at_node(struct looks *looks, const struct json_value *root)
{
    const struct json_value *mesh = json_tree_member(root, "mesh");
    double differ = status_number(root, "model_files_differ");
    double mismatches = status_number(mesh, "digest_mismatches");
    struct slice node = status_text(root, "node");

    if (!status_flag(root, "ready") && !status_flag(root, "draining") &&
        begin(looks, node)) {
        buf_add_text(looks->out, " is not ready: GET /ready says why\n");
    }
    if (differ > 0 && begin(looks, node)) {
        buf_printf(looks->out,
                   " has other files than its peers of %.0f models\n", differ);
    }
    if (mismatches > 0 && begin(looks, node)) {
        buf_printf(looks->out,
                   " found %.0f streams that differed, and had them anew\n",
                   mismatches);
    }
}

static void
look_at_members(struct looks *looks, const struct json_value *root)
{
    uint32_t count;
    const struct json_value *rows = status_list(root, "members", &count);

    for (uint32_t i = 0; i < count; i++) {
        bool alive = says(&rows[i], "state", "alive");
        bool linked =
            says(&rows[i], "link", "up") || says(&rows[i], "link", "self");
        if ((alive && linked) || !begin(looks, status_text(&rows[i], "name"))) {
            continue;
        }
        buf_add_text(looks->out, alive ? " has no good link: " : " is ");
        status_put(looks->out, status_text(&rows[i], alive ? "link" : "state"));
        if (!alive) {
            buf_add_text(looks->out, " for ");
            status_put_age(looks->out, status_number(&rows[i], "since_s"));
        }
        buf_add_text(looks->out, "\n");
    }
}

/* How many of the workers take no requests for the same reason as that one. */
static uint32_t
count_alike(const struct json_value *workers, uint32_t count,
            const struct json_value *with)
{
    uint32_t alike = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct json_value *worker = &workers[i];
        alike += !status_flag(worker, "eligible") &&
                 slice_equal(status_text(worker, "state"),
                             status_text(with, "state")) &&
                 slice_equal(status_text(worker, "reason"),
                             status_text(with, "reason"));
    }
    return alike;
}

static void
look_at_workers(struct looks *looks, const struct json_value *root)
{
    uint32_t count;
    const struct json_value *rows = status_list(root, "workers", &count);

    for (uint32_t i = 0; i < count; i++) {
        struct slice reason = status_text(&rows[i], "reason");
        if (status_flag(&rows[i], "eligible") ||
            count_alike(rows, i, &rows[i]) != 0 ||
            !begin(looks, status_text(&rows[i], "id"))) {
            continue;
        }
        uint32_t others = count_alike(rows, count, &rows[i]) - 1;
        if (others != 0) {
            buf_printf(looks->out, " and %u other%s take no requests: ", others,
                       others == 1 ? "" : "s");
        } else {
            buf_add_text(looks->out, " takes no requests: ");
        }
        status_put(looks->out, status_text(&rows[i], "state"));
        if (reason.len != 0) {
            buf_add_text(looks->out, " (");
            status_put(looks->out, reason);
            buf_add_text(looks->out, ")");
        }
        buf_add_text(looks->out, "\n");
    }
    rows = status_list(root, "left_out", &count);
    for (uint32_t i = 0; i < count; i++) {
        if (!begin(looks, status_text(&rows[i], "worker"))) {
            continue;
        }
        buf_add_text(looks->out, ": no ");
        status_put(looks->out, status_text(&rows[i], "what"));
        buf_add_text(looks->out, ", as ");
        status_put(looks->out, status_text(&rows[i], "why"));
        buf_add_text(looks->out, "\n");
    }
}

static void
look_at_sources(struct looks *looks, const struct json_value *root)
{
    uint32_t count;
    const struct json_value *rows = status_list(root, "worker_sources", &count);

    for (uint32_t i = 0; i < count; i++) {
        double refused = status_number(&rows[i], "refused");
        struct slice from = status_text(&rows[i], "from");
        if (!says(&rows[i], "state", "good") && begin(looks, from)) {
            buf_add_text(looks->out, " keeps its last list: ");
            status_put(looks->out, status_text(&rows[i], "why"));
            buf_add_text(looks->out, "\n");
        }
        if (refused > 0 && begin(looks, from)) {
            buf_printf(looks->out, " names %.0f workers that have no place\n",
                       refused);
        }
    }
}

/* How many of the streams are in that state. */
static uint32_t
count_in_state(const struct json_value *streams, uint32_t count,
               struct slice state)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++) {
        found += slice_equal(status_text(&streams[i], "state"), state);
    }
    return found;
}

/* " rank R", and of how many others the line is, too. */
static void
put_rank(struct buf *out, const struct json_value *row, uint32_t others)
{
    buf_printf(out, " rank %.0f", status_number(row, "rank"));
    if (others != 0) {
        buf_printf(out, " and %u other%s", others, others == 1 ? "" : "s");
    }
}

/* What is not known of workers' caches. */
static void
look_at_streams(struct looks *looks, const struct json_value *root)
{
    uint32_t count;
    const struct json_value *rows = status_list(root, "streams", &count);

    for (uint32_t i = 0; i < count; i++) {
        struct slice state = status_text(&rows[i], "state");
        if (slice_equal(state, SLICE("complete")) ||
            count_in_state(rows, i, state) != 0 ||
            !begin(looks, status_text(&rows[i], "worker"))) {
            continue;
        }
        uint32_t others = count_in_state(rows, count, state) - 1;
        put_rank(looks->out, &rows[i], others);
        buf_printf(looks->out, ": not all %s known: ",
                   others != 0 ? "they hold is" : "it holds is");
        status_put(looks->out, state);
        buf_add_text(looks->out, "\n");
    }
}

/* The stream that is trusted least, for all that are not trusted. */
static void
look_at_trust(struct looks *looks, const struct json_value *root)
{
    uint32_t count;
    const struct json_value *rows = status_list(root, "events", &count);
    const struct json_value *least = NULL;
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++) {
        double trust = status_number(&rows[i], "trust");
        if (trust < 0.9995) {
            found++;
            least = least == NULL || trust < status_number(least, "trust")
                        ? &rows[i]
                        : least;
        }
    }
    if (least != NULL && begin(looks, status_text(least, "worker"))) {
        put_rank(looks->out, least, found - 1);
        buf_printf(looks->out, ": what %s said to hold counts %.1f %%%s\n",
                   found > 1 ? "they are" : "it is",
                   100 * status_number(least, "trust"),
                   found > 1 ? " or more" : "");
    }
}

static void
look_at_models(struct looks *looks, const struct json_value *root)
{
    uint32_t count;
    const struct json_value *rows = status_list(root, "models", &count);

    for (uint32_t i = 0; i < count; i++) {
        struct slice why = status_text(&rows[i], "why");
        if (why.len != 0 && begin(looks, status_text(&rows[i], "model"))) {
            buf_add_text(looks->out, ": no tokens are made here: ");
            status_put(looks->out, why);
            buf_add_text(looks->out, "\n");
        }
    }
}

void
status_put_looks(struct buf *out, const struct json_value *root)
{
    struct looks looks = {.out = out};

    look_at_node(&looks, root);
    look_at_members(&looks, root);
    look_at_workers(&looks, root);
    look_at_sources(&looks, root);
    look_at_streams(&looks, root);
    look_at_trust(&looks, root);
    look_at_models(&looks, root);
    if (looks.count > STATUS_LOOKS_MAX) {
        buf_printf(out, "  and %u more: --json\n",
                   looks.count - STATUS_LOOKS_MAX);
    }
    if (looks.count > 0) {
        buf_add_text(out, "  kvasir doctor tries the engines; the page of the "
                          "admin port says what to do\n");
    }
}
