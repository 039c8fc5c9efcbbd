/* One node's status as a page: the sentences, then the tables. */

#include "node/cli/status_internal.h"
#include "node/redis/redis_refusal.h"

#define TREE_BYTES_MAX ((size_t)64 << 20)

/* Reading */

double
status_number(const struct json_value *object, const char *key)
{
    const struct json_value *value = json_tree_member(object, key);

    if (value == NULL) {
        return 0;
    }
    return value->kind == JSON_INT    ? (double)value->as.integer
           : value->kind == JSON_REAL ? value->as.real
                                      : 0;
}

bool
status_flag(const struct json_value *object, const char *key)
{
    const struct json_value *value = json_tree_member(object, key);

    return value != NULL && value->kind == JSON_BOOL && value->as.integer != 0;
}

struct slice
status_text(const struct json_value *object, const char *key)
{
    const struct json_value *value = json_tree_member(object, key);

    return value != NULL && value->kind == JSON_STRING ? json_tree_slice(value)
                                                       : SLICE("");
}

const struct json_value *
status_list(const struct json_value *object, const char *key, uint32_t *count)
{
    const struct json_value *value = json_tree_member(object, key);
    bool is = value != NULL && value->kind == JSON_ARRAY;

    *count = is ? value->len : 0;
    return is ? value->as.items : NULL;
}

/* Writing */

void
status_put(struct buf *out, struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        bool plain = text.ptr[i] >= ' ' && text.ptr[i] <= '~';
        buf_add(out, plain ? &text.ptr[i] : "?", 1);
    }
}

void
status_put_age(struct buf *out, double seconds)
{
    static const struct {
        double longer_than; /* seconds */
        unsigned unit;
        const char *name;
        unsigned part;
        const char *part_name;
    } ages[] = {
        {2 * 86400, 86400, "d", 3600, "h"},
        {2 * 3600, 3600, "h", 60, "min"},
        {120, 60, "min", 0, NULL},
    };
    bool sane = seconds >= 0 && seconds < 1e12;
    uint64_t whole = sane ? (uint64_t)seconds : 0;

    for (size_t i = 0; i < sizeof(ages) / sizeof(ages[0]); i++) {
        if (seconds < ages[i].longer_than) {
            continue;
        }
        buf_printf(out, "%llu %s", (unsigned long long)(whole / ages[i].unit),
                   ages[i].name);
        if (ages[i].part != 0) {
            buf_printf(out, " %u %s",
                       (unsigned)(whole % ages[i].unit / ages[i].part),
                       ages[i].part_name);
        }
        return;
    }
    buf_printf(out, "%u s", (unsigned)whole);
}

void
status_put_bytes(struct buf *out, double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;

    while (bytes >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1024;
        unit++;
    }
    buf_printf(out, "%.*f %s", unit == 0 || bytes >= 100 ? 0 : 1, bytes,
               units[unit]);
}

static void
put_number(struct buf *out, double value)
{
    if (value >= 10e6) {
        buf_printf(out, "%.1fM", value / 1e6);
    } else {
        buf_printf(out, "%.0f", value);
    }
}

/* "N NAME" for a member of that name's number, with what stands before. */
static void
put_counts(struct buf *out, const struct json_value *object,
           const char *const (*names)[2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        buf_add_text(out, i != 0 ? ", " : "");
        put_number(out, status_number(object, names[i][0]));
        buf_printf(out, " %s", names[i][1]);
    }
}

static void
put_share(struct buf *out, double part, double whole)
{
    buf_printf(out, "%.1f %%", whole > 0 ? 100 * part / whole : 0.0);
}

void
status_put_cell(struct buf *out, struct slice text, size_t width)
{
    size_t len = text.len;

    if (len > width) {
        buf_add_text(out, "..");
        text.ptr += len - (width - 2);
        text.len = width - 2;
    }
    status_put(out, text);
    buf_printf(out, "%*s", (int)(len < width ? width - len : 0) + 1, "");
}

/* The sentences */

static void
put_first(struct buf *out, const struct json_value *root)
{
    status_put(out, status_text(root, "node"));
    buf_add_text(out, " ");
    status_put(out, status_text(root, "version"));
    if (status_text(root, "commit").len != 0) {
        buf_add_text(out, " (");
        status_put(out, status_text(root, "commit"));
        buf_add_text(out, ")");
    }
    buf_add_text(out, status_flag(root, "draining") ? ": stops"
                      : status_flag(root, "ready")  ? ": ready"
                                                    : ": not ready");
    buf_add_text(out, ", up ");
    status_put_age(out, status_number(root, "uptime_s"));
    buf_add_text(out, "\n\n");
}

static void
put_sandbox(struct buf *out, const struct json_value *root)
{
    const struct json_value *sandbox = json_tree_member(root, "sandbox");

    if (sandbox == NULL) {
        return;
    }
    buf_add_text(out, "sandbox   ");
    status_put(out, status_text(sandbox, "bounds"));
    if (status_text(sandbox, "why").len != 0) {
        buf_add_text(out, ": ");
        status_put(out, status_text(sandbox, "why"));
    }
    buf_add_text(out, "\n");
}

static void
put_mesh(struct buf *out, const struct json_value *root)
{
    const struct json_value *mesh = json_tree_member(root, "mesh");
    uint32_t members;

    (void)status_list(root, "members", &members);
    if (mesh == NULL) {
        return;
    }
    buf_add_text(out, "mesh      ");
    status_put(out, status_text(mesh, "cluster"));
    if (slice_equal(status_text(mesh, "address"), SLICE("none"))) {
        buf_add_text(out, ": this node alone\n");
        return;
    }
    buf_printf(out, ": %.0f of %u nodes alive, %.0f links up, %s\n",
               status_number(mesh, "alive"), members,
               status_number(mesh, "peers_up"),
               status_flag(mesh, "tls") ? "TLS" : "no TLS");
}

static void
put_workers_line(struct buf *out, const struct json_value *root)
{
    uint32_t count;
    const struct json_value *workers = status_list(root, "workers", &count);
    uint32_t taking = 0;

    for (uint32_t i = 0; i < count; i++) {
        taking += status_flag(&workers[i], "eligible");
    }
    buf_printf(out, "workers   %u, of which %u take requests\n", count, taking);
    workers = status_list(root, "worker_sources", &count);
    for (uint32_t i = 0; i < count; i++) {
        buf_printf(out, "named     %.0f by ",
                   status_number(&workers[i], "workers"));
        status_put_cell(out, status_text(&workers[i], "from"), 60);
        out->len--; /* the blank behind a cell */
        buf_add_text(out, "\n");
    }
}

static void
put_requests(struct buf *out, const struct json_value *root)
{
    static const char *const now[][2] = {{"read", "read"},
                                         {"inflight", "in flight"}};
    static const char *const ends[][2] = {{"retries", "retried"},
                                          {"all_failed", "failed"},
                                          {"severed", "severed"},
                                          {"cancelled", "cancelled"}};
    static const char *const refused[][2] = {{"bad", "bad"},
                                             {"overload", "for overload"},
                                             {"no_worker", "without worker"}};
    const struct json_value *requests = json_tree_member(root, "requests");
    const struct json_value *queue = json_tree_member(root, "queue");

    if (requests == NULL) {
        return;
    }
    buf_add_text(out, "requests  ");
    put_counts(out, requests, now, 2);
    buf_printf(out, ", %.0f wait\nof these  ", status_number(queue, "waiting"));
    put_counts(out, requests, ends, 4);
    buf_add_text(out, "\nrefused   ");
    put_counts(out, requests, refused, 3);
    buf_add_text(out, "\n");
}

static void
put_placement(struct buf *out, const struct json_value *root)
{
    static const char *const modes[][2] = {{"affinity", "by affinity"},
                                           {"balance", "by balance"},
                                           {"session", "by session"},
                                           {"policy_chosen", "by policy"}};
    const struct json_value *placement = json_tree_member(root, "placement");
    double prompt = status_number(placement, "prompt_tokens");

    if (placement == NULL) {
        return;
    }
    buf_add_text(out, "placed    ");
    put_counts(out, placement, modes, 4);
    buf_add_text(out, "\ncached    ");
    put_share(out, status_number(placement, "cached_tokens"), prompt);
    buf_add_text(out, " of ");
    put_number(out, prompt);
    buf_add_text(out, " prompt tokens, as engines reported\n");
}

/* Where the node is, if it says so, and what leaves. */
static void
put_island(struct buf *out, const struct json_value *root)
{
    struct slice island = status_text(root, "island");

    if (island.len != 0) {
        buf_add_text(out, "island    ");
        put_number(out, status_number(root, "island_crossed"));
        buf_add_text(out, " of ");
        put_number(out, status_number(root, "island_requests"));
        buf_add_text(out, " requests left ");
        status_put(out, island);
        buf_add_text(out, "\n");
    }
}

/* How far what was promised by events was what engines reported. */
static void
put_predicted(struct buf *out, const struct json_value *root)
{
    uint32_t count;
    const struct json_value *rows = status_list(root, "events", &count);
    double answers = 0;
    double exact = 0;
    double over = 0;
    double under = 0;

    for (uint32_t i = 0; i < count; i++) {
        answers += status_number(&rows[i], "answers");
        exact += status_number(&rows[i], "exact");
        over += status_number(&rows[i], "over");
        under += status_number(&rows[i], "under");
    }
    if (answers > 0) {
        buf_add_text(out, "predicted ");
        put_share(out, exact, answers);
        buf_printf(out, " of %.0f exactly; %.0f too high, %.0f too low\n",
                   answers, over, under);
    }
}

static void
put_index(struct buf *out, const struct json_value *root)
{
    static const char *const parts[] = {"mirror", "ledger", "belief"};
    const struct json_value *index = json_tree_member(root, "index");

    if (index == NULL) {
        return;
    }
    buf_add_text(out, "index     ");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const struct json_value *part = json_tree_member(index, parts[i]);
        double bytes = status_number(part, "bytes");
        double bytes_max = status_number(part, "bytes_max");
        buf_printf(out, "%s%s ", i != 0 ? ", " : "", parts[i]);
        status_put_bytes(out, bytes);
        buf_printf(out, " (%.0f %%)",
                   bytes_max > 0 ? 100 * bytes / bytes_max : 0.0);
    }
    buf_add_text(out, "\n");
}

/* Answers that Redis refused, if any, by why. */
static void
put_refused(struct buf *out, const struct json_value *redis)
{
    const struct json_value *refused = json_tree_member(redis, "refused");
    const char *between = "; it refused ";

    for (int i = 0; i < REDIS_REFUSALS; i++) {
        const char *name = redis_refusal_name((enum redis_refusal)i);
        double count = status_number(refused, name);
        if (count > 0) {
            buf_printf(out, "%s%.0f (%s)", between, count, name);
            between = ", ";
        }
    }
}

/* Of a node that keeps answers. */
static void
put_answer_cache(struct buf *out, const struct json_value *root)
{
    const struct json_value *cache = json_tree_member(root, "answer_cache");
    double hits = status_number(cache, "hits");

    if (cache == NULL) {
        return;
    }
    buf_printf(out, "answers   %.0f kept, ", status_number(cache, "answers"));
    status_put_bytes(out, status_number(cache, "bytes"));
    buf_add_text(out, " of ");
    status_put_bytes(out, status_number(cache, "bytes_max"));
    buf_add_text(out, "; ");
    put_share(out, hits, hits + status_number(cache, "misses"));
    buf_add_text(out, " of requests that may be answered from them were");
    const struct json_value *semantic = json_tree_member(cache, "semantic");
    if (semantic != NULL) {
        buf_printf(out, "; %.0f in other words",
                   status_number(semantic, "hits"));
    }
    const struct json_value *redis = json_tree_member(cache, "redis");
    if (redis != NULL) {
        buf_printf(out, "; by redis %.0f, %.0f of %.0f connections open",
                   status_number(redis, "hits"), status_number(redis, "open"),
                   status_number(redis, "connections"));
        put_refused(out, redis);
    }
    buf_add_text(out, "\n");
}

static void
put_snapshot(struct buf *out, const struct json_value *root)
{
    const struct json_value *snapshot = json_tree_member(root, "snapshot");

    buf_add_text(out, "snapshot  ");
    if (snapshot == NULL || snapshot->kind != JSON_OBJECT) {
        buf_add_text(out, "none: data.dir is not set\n");
    } else if (!status_flag(snapshot, "any")) {
        buf_add_text(out, "none yet\n");
    } else {
        status_put_bytes(out, status_number(snapshot, "bytes"));
        buf_add_text(out, ", taken ");
        status_put_age(out, status_number(snapshot, "age_ms") / 1000);
        buf_add_text(out, " ago\n");
    }
}

/* The tables */

static void
put_members(struct buf *out, const struct json_value *root)
{
    uint32_t count;
    const struct json_value *rows = status_list(root, "members", &count);

    if (count < 2) {
        return;
    }
    buf_add_text(out, "\nNODE                       STATE      LINK     "
                      "ADDRESS\n");
    for (uint32_t i = 0; i < count; i++) {
        status_put_cell(out, status_text(&rows[i], "name"), 26);
        status_put_cell(out, status_text(&rows[i], "state"), 10);
        status_put_cell(out, status_text(&rows[i], "link"), 8);
        status_put(out, status_text(&rows[i], "address"));
        buf_add_text(out, "\n");
    }
}

static void
put_limits(struct buf *out, const struct json_value *root)
{
    uint32_t count;
    const struct json_value *rows = status_list(root, "limits", &count);

    buf_add_text(out, count != 0
                          ? "\nTENANT           MODEL            LIMIT OF     "
                            "   USED       OF    REFUSED\n"
                          : "");
    for (uint32_t i = 0; i < count; i++) {
        struct slice tenant = status_text(&rows[i], "tenant");
        status_put_cell(out, tenant.len != 0 ? tenant : SLICE("(all)"), 16);
        status_put_cell(out, status_text(&rows[i], "model"), 16);
        status_put_cell(out, status_text(&rows[i], "of"), 10);
        buf_printf(out, "%9.0f %8.0f %10.0f\n", status_number(&rows[i], "used"),
                   status_number(&rows[i], "limit"),
                   status_number(&rows[i], "refused_here"));
    }
}

/* Where the next engine would be asked for, and why not elsewhere; nothing where
 * pools have no names. */
static void
put_pools(struct buf *out, const struct json_value *group)
{
    uint32_t count = 0;
    const struct json_value *rows = status_list(group, "pools", &count);
    struct slice next = status_text(group, "next_pool");

    buf_add_text(out, count != 0
                          ? "\nPOOL                       ENGINES  PRICE "
                            "MISSED MAY       OF\n"
                          : "");
    for (uint32_t i = 0; i < count; i++) {
        struct slice name = status_text(&rows[i], "name");
        status_put_cell(out, name, 26);
        buf_printf(out, "%7.0f %6.2f %6.0f ",
                   status_number(&rows[i], "engines"),
                   status_number(&rows[i], "price"),
                   status_number(&rows[i], "missed"));
        status_put_cell(out,
                        slice_equal(name, next) ? SLICE("next")
                                                : status_text(&rows[i], "may"),
                        9);
        status_put(out, status_text(group, "model"));
        buf_add_text(out, "\n");
    }
}

/* How many engines each model should have; nothing while nobody judges that. */
static void
put_scale(struct buf *out, const struct json_value *root)
{
    const struct json_value *scale = json_tree_member(root, "scale");
    uint32_t count = 0;
    const struct json_value *rows =
        scale != NULL ? status_list(scale, "groups", &count) : NULL;

    buf_add_text(out, count != 0 ? "\nSCALE OF                   ENGINES READY "
                                   "NEEDED DESIRED WHY\n"
                                 : "");
    for (uint32_t i = 0; i < count; i++) {
        status_put_cell(out, status_text(&rows[i], "model"), 26);
        buf_printf(
            out, "%7.0f %5.0f %6.1f %7.0f ", status_number(&rows[i], "engines"),
            status_number(&rows[i], "ready"), status_number(&rows[i], "needed"),
            status_number(&rows[i], "desired"));
        status_put(out, status_text(&rows[i], "why"));
        buf_add_text(out, "\n");
    }
    for (uint32_t i = 0; i < count; i++) {
        put_pools(out, &rows[i]);
    }
}

/* Who acts, by what, and what did not come; nothing where nobody may. */
static void
put_actor(struct buf *out, const struct json_value *root)
{
    const struct json_value *scale = json_tree_member(root, "scale");
    struct slice by = status_text(scale, "by");
    struct slice actor = status_text(scale, "actor");

    if (by.len == 0) {
        return;
    }
    status_put(out, actor.len != 0 ? actor : SLICE("nobody"));
    buf_add_text(out, " acts, by ");
    status_put(out, by);
    buf_printf(out, "; engines that did not come: %.0f\n",
               status_number(scale, "missed"));
}

/* Engines that nodes asked for; nothing while there are none. */
static void
put_jobs(struct buf *out, const struct json_value *root)
{
    const struct json_value *scale = json_tree_member(root, "scale");
    uint32_t count = 0;
    const struct json_value *rows =
        scale != NULL ? status_list(scale, "jobs", &count) : NULL;

    buf_add_text(out, count != 0 ? "\nENGINE ASKED FOR           STATE   FAILS "
                                   "WORKER\n"
                                 : "");
    for (uint32_t i = 0; i < count; i++) {
        status_put_cell(out, status_text(&rows[i], "key"), 26);
        status_put_cell(out, status_text(&rows[i], "state"), 7);
        buf_printf(out, "%5.0f ", status_number(&rows[i], "fails"));
        status_put(out, status_text(&rows[i], "worker"));
        buf_add_text(out, "\n");
    }
}

static void
put_page(struct buf *out, const struct json_value *root)
{
    put_first(out, root);
    put_sandbox(out, root);
    put_mesh(out, root);
    put_workers_line(out, root);
    put_requests(out, root);
    put_placement(out, root);
    put_island(out, root);
    put_predicted(out, root);
    put_index(out, root);
    put_answer_cache(out, root);
    put_snapshot(out, root);
    status_put_looks(out, root);
    put_members(out, root);
    status_put_streams(out, root);
    status_put_workers(out, root);
    put_limits(out, root);
    put_scale(out, root);
    put_actor(out, root);
    put_jobs(out, root);
}

int
status_show(struct slice json, struct buf *out)
{
    struct json_tree_fault fault;
    struct json_value root;
    struct arena arena;
    int rc = STATUS_E_BAD;

    arena_init(&arena, TREE_BYTES_MAX);
    if (json_tree_read(json, &arena, &root, &fault) &&
        status_text(&root, "node").len != 0 &&
        json_tree_member(&root, "workers") != NULL) {
        put_page(out, &root);
        rc = 0;
    }
    arena_fini(&arena);
    return rc;
}
