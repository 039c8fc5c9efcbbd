#include "node/tokens/token_ask_internal.h"

void
ask_text_lines(struct buf *out, const struct fleet_worker *worker)
{
    buf_printf(out, "Host: %s\r\n", worker->host_header);
    if (worker->api_key[0] != '\0') {
        buf_printf(out, "Authorization: Bearer %s\r\n", worker->api_key);
    }
}

static void
add_head(struct token_question *q, const char *path, size_t body_bytes)
{
    buf_printf(&q->out, "POST %s%s HTTP/1.1\r\n", q->base_path, path);
    buf_add_slice(&q->out, buf_slice(&q->lines));
    buf_printf(&q->out,
               "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
               body_bytes);
}

/* "key":value as it stands in the client's body. */
static void
add_part(struct buf *out, const struct buf *body, const char *key,
         const struct scan_text *raw)
{
    if (raw->present) {
        buf_add_text(out, out->len == 0 ? "{\"" : ",\"");
        buf_add_text(out, key);
        buf_add_text(out, "\":");
        buf_add(out, body->ptr + raw->at, raw->len);
    }
}

/* A string's text with its quotes. */
static struct scan_text
quoted(const struct scan_text *text)
{
    struct scan_text raw = *text;

    if (raw.present) {
        raw.at--;
        raw.len += 2;
    }
    return raw;
}

static void
write_tokenize(struct token_question *q)
{
    const struct ask_parts *parts = &q->parts;
    struct scan_text model = quoted(&parts->model);
    struct buf body;

    buf_init(&body, SIZE_MAX / 2); /* as large as the client's */
    add_part(&body, &q->body, q->chat ? "messages" : "prompt", &parts->prompt);
    add_part(&body, &q->body, "model", &model);
    if (q->chat) {
        add_part(&body, &q->body, "tools", &parts->tools);
    }
    for (unsigned i = 0; i < SCAN_OPTIONS; i++) {
        if (q->chat || i == SCAN_ADD_SPECIAL_TOKENS) {
            add_part(&body, &q->body, scan_option_name((enum scan_option)i),
                     &parts->options[i]);
        }
    }
    buf_add_text(&body, "}");
    add_head(q, "/tokenize", body.len);
    buf_add_slice(&q->out, buf_slice(&body));
    q->out.failed |= body.failed;
    buf_fini(&body);
}

/*
 * The client's body as it is; but pictures would come back as the tensors that
 * they were made into, unless one asks for the layout alone.
 */
static void
write_render(struct token_question *q)
{
    struct slice body = buf_slice(&q->body), no_tensors = SLICE("");
    const char *brace = memchr(body.ptr, '{', body.len);

    CHECK(brace != NULL); /* it was scanned */
    if (q->media) {
        no_tensors = SLICE("{\"return_mm_kwargs\":false,");
        body.len -= (size_t)(brace + 1 - body.ptr);
        body.ptr = brace + 1;
    }
    add_head(q,
             q->chat ? "/v1/chat/completions/render" : "/v1/completions/render",
             no_tensors.len + body.len);
    buf_add_slice(&q->out, no_tensors);
    buf_add_slice(&q->out, body);
}

void
ask_text_write(struct token_question *q)
{
    buf_clear(&q->out);
    CHECK(q->way != ASK_NOTHING);
    if (q->way == ASK_RENDER) {
        write_render(q);
    } else {
        write_tokenize(q);
    }
}
