/* Asks for a text's vector. */
#include "node/fleet/embedding.h"

#include <errno.h>
#include <stdio.h>

#include "index/base/buf.h"
#include "node/text/json_out.h"

static void
put_body(struct buf *body, const struct embedding_ask *ask)
{
    struct json_out json;

    buf_add_text(body, "{\"model\":");
    json_out_init(&json, body);
    json_out_text(&json, ask->model);
    buf_add_text(body, ",\"input\":");
    if (ask->raw) {
        buf_add_text(body, "\"");
        buf_add_slice(body, ask->text);
        buf_add_text(body, "\"");
    } else {
        json_out_init(&json, body);
        json_out_slice(&json, ask->text);
    }
    buf_add_text(body, "}");
}

int
embedding_start(struct httpc **call, uv_loop_t *loop,
                const struct embedding_ask *ask)
{
    char target[URL_PATH_MAX + 16];
    struct buf lines;
    struct buf body;
    struct url url;
    bool sound = url_parse_web(slice_of(ask->url), &url) == NULL;

    CHECK(sound);
    if (url.tls && ask->tls == NULL) {
        return -EINVAL;
    }
    buf_init(&lines, SIZE_MAX / 2);
    buf_init(&body, SIZE_MAX / 2);
    (void)snprintf(target, sizeof target, "%s/v1/embeddings", url.path);
    buf_add_text(&lines, "Content-Type: application/json\r\n");
    if (ask->api_key[0] != '\0') {
        buf_printf(&lines, "Authorization: Bearer %s\r\n", ask->api_key);
    }
    put_body(&body, ask);
    struct httpc_request request = {
        .host = url.host,
        .port = url.port,
        .address = ask->address,
        .tls = url.tls ? ask->tls : NULL,
        .waits = ask->waits,
        .method = "POST",
        .target = target,
        .headers = buf_slice(&lines),
        .body = buf_slice(&body),
        .timeout_ms = ask->timeout_ms,
        .answer_bytes_max = EMBEDDING_BYTES,
        .context = ask->context,
        .done = ask->done,
    };
    int outcome = lines.failed || body.failed
                      ? -ENOMEM
                      : httpc_start(call, loop, &request);
    buf_fini(&lines);
    buf_fini(&body);
    return outcome;
}

const struct fleet_worker *
embedding_choose(const struct fleet_view *view, const struct fleet_model *model,
                 struct rng *rng)
{
    uint32_t chosen = WORKER_NONE;
    uint64_t seen = 0;

    if (model == NULL) {
        return NULL;
    }
    struct worker_set able = worker_set_and(&model->workers, &view->eligible);
    WORKER_SET_EACH (slot, &able) {
        if (rng_below(rng, ++seen) == 0) {
            chosen = slot;
        }
    }
    return chosen != WORKER_NONE ? view->worker[chosen] : NULL;
}

struct text_vector *
embedding_read(const struct httpc_answer *answer)
{
    struct text_vector *vector = NULL;

    if (answer->outcome != HTTPC_OK || answer->head->status != 200 ||
        text_vector_read(answer->body, &vector) != 0) {
        return NULL;
    }
    return vector;
}
