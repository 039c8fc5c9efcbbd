/* What the admin port says of snapshots, and takes of them on demand. */
#include "node/control/admin_snapshot.h"

#include <stdio.h>
#include <stdlib.h>

#include "node/control/admin.h"
#include "node/text/prom_out.h"

static void
put_loaded(struct json_out *json, const struct snapshot_loaded *loaded)
{
    json_out_key(json, "start");
    json_out_object_begin(json);
    json_out_put_text(json, "state", loaded->warm ? "warm" : "cold");
    json_out_put_text(json, "reason", loaded->reason);
    json_out_put_text(json, "file", loaded->from.file);
    json_out_put_uint(json, "age_ms", loaded->age_ms);
    json_out_put_uint(json, "verify_ms", loaded->find_us / 1000);
    json_out_put_uint(json, "load_ms", loaded->load_us / 1000);
    json_out_put_uint(json, "ledger_ms", loaded->ledger_us / 1000);
    json_out_put_uint(json, "streams", loaded->streams);
    json_out_put_uint(json, "streams_left_out", loaded->left_out);
    json_out_put_uint(json, "streams_resumed", loaded->ledgers);
    json_out_put_uint(json, "streams_named", loaded->named);
    json_out_put_uint(json, "names_refused", loaded->names_refused);
    json_out_put_uint(json, "blocks", loaded->blocks);
    json_out_put_uint(json, "ledger_blocks", loaded->ledger_blocks);
    json_out_put_uint(json, "belief_blocks", loaded->belief_blocks);
    json_out_put_uint(json, "workers", loaded->workers);
    json_out_put_uint(json, "members", loaded->members);
    json_out_put_bool(json, "mix", loaded->mix);
    json_out_put_bool(json, "text", loaded->text);
    json_out_put_uint(json, "files_refused", loaded->refused);
    json_out_object_end(json);
}

static void ON_CONTROL
put_fields(const struct snapshot *snapshot, struct json_out *json)
{
    struct snapshot_status s;

    snapshot_status(snapshot, &s);
    json_out_object_begin(json);
    json_out_put_text(json, "dir", s.dir);
    json_out_put_bool(json, "any", s.any);
    json_out_put_uint(json, "age_ms", s.age_ms);
    json_out_put_uint(json, "bytes", s.take.saved.size);
    json_out_put_uint(json, "file_bytes", s.take.saved.file_size);
    json_out_put_uint(json, "written_bytes", s.take.saved.written);
    json_out_put_uint(json, "duration_ms", s.take.duration_us / 1000);
    json_out_put_uint(json, "longest_turn_us", s.turn_us);
    json_out_put_bool(json, "running", s.take.running);
    json_out_put_uint(json, "taken", s.take.taken);
    json_out_put_uint(json, "failed", s.take.failed);
    json_out_put_text(json, "outcome", storage_outcome_name(s.take.outcome));
    put_loaded(json, &s.loaded);
    json_out_object_end(json);
}

void
admin_put_snapshot(struct control *control, struct json_out *json)
{
    json_out_key(json, "snapshot");
    if (control->snapshot == NULL) {
        json_out_null(json);
    } else {
        put_fields(control->snapshot, json);
    }
}

void
admin_put_snapshot_metrics(struct control *control, struct buf *out)
{
    struct snapshot_status s;

    if (control->snapshot == NULL) {
        return;
    }
    snapshot_status(control->snapshot, &s);
    prom_out_single(out, "kvasir_snapshot_taken_total", "counter",
                    "Snapshots taken", s.take.taken);
    prom_out_single(out, "kvasir_snapshot_failed_total", "counter",
                    "Snapshots that could not be taken (disk full, ...)",
                    s.take.failed);
    prom_out_single(out, "kvasir_snapshot_failing", "gauge",
                    "1 while the last attempt failed",
                    s.take.outcome != STORAGE_OK);
    prom_out_single(out, "kvasir_snapshot_age_seconds", "gauge",
                    "Age of the last snapshot; 0 before the first",
                    s.age_ms / 1000);
    prom_out_single(out, "kvasir_snapshot_bytes", "gauge",
                    "Size of the last snapshot", s.take.saved.size);
    prom_out_single(out, "kvasir_snapshot_file_bytes", "gauge",
                    "Size of the file it is in", s.take.saved.file_size);
    prom_out_single_of(out, "kvasir_snapshot_duration_seconds", "gauge",
                       "Time the last snapshot took", s.take.duration_us,
                       1000000);
    prom_out_single_of(out, "kvasir_snapshot_longest_turn_seconds", "gauge",
                       "CPU time of the control loop's longest turn for the "
                       "last snapshot",
                       s.turn_us, 1000000);
    prom_out_single(out, "kvasir_snapshot_start_warm", "gauge",
                    "1 when this process went on from a snapshot",
                    s.loaded.warm);
    prom_out_single(out, "kvasir_snapshot_start_blocks", "gauge",
                    "Blocks loaded at the start", s.loaded.blocks);
    prom_out_single_of(out, "kvasir_snapshot_start_seconds", "gauge",
                       "Time to verify and load at the start",
                       s.loaded.find_us + s.loaded.load_us, 1000000);
    prom_out_single(out, "kvasir_snapshot_start_refused", "gauge",
                    "Files that the start could not use", s.loaded.refused);
}

/* POST /admin/snapshot */

/* Of a request that waits. */
struct asked {
    struct control *control;
    struct httpd_request *request;
};

static void
on_done(void *context)
{
    struct asked *asked = context;
    struct snapshot *snapshot = asked->control->snapshot;
    struct httpd_request *request = asked->request;
    struct snapshot_status s;
    struct buf body;
    struct json_out json;

    role_is_control();
    *httpd_user(request) = NULL;
    free(asked);
    snapshot_status(snapshot, &s);
    if (s.take.outcome != STORAGE_OK) {
        char fault[160];
        (void)snprintf(fault, sizeof fault, "no snapshot could be taken: %s",
                       storage_outcome_name(s.take.outcome));
        httpd_error(request, 503, "snapshot_failed", fault);
        return;
    }
    buf_init(&body, ADMIN_BYTES_MAX);
    json_out_init(&json, &body);
    put_fields(snapshot, &json);
    buf_add(&body, "\n", 1);
    admin_answer(request, "application/json", &body);
    buf_fini(&body);
}

void
admin_snapshot(struct control *control, struct httpd_request *request)
{
    struct asked *asked = calloc(1, sizeof *asked);

    if (control->snapshot == NULL) {
        httpd_error(request, 404, "no_data_directory",
                    "this node takes no snapshots: it has no data.dir");
    } else if (asked == NULL ||
               !snapshot_ask(control->snapshot, on_done, asked)) {
        httpd_error(request, 503, "snapshot_asked",
                    "too many wait for a snapshot already");
    } else {
        *asked = (struct asked){.control = control, .request = request};
        *httpd_user(request) = asked;
        return;
    }
    free(asked);
}

void
admin_snapshot_gone(struct control *control, struct httpd_request *request)
{
    struct asked *asked = *httpd_user(request);

    if (asked != NULL) {
        snapshot_forget(control->snapshot, asked);
        free(asked);
    }
}
