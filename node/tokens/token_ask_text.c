/* What a question looks like: the path, headers and body of its request. */
#include <stdio.h>

#include "node/tokens/token_ask_internal.h"

void
ask_text_lines(struct buf *out, const struct fleet_worker *worker)
{
    buf_add_text(out, "Content-Type: application/json\r\n");
    if (worker->api_key[0] != '\0') {
        buf_printf(out, "Authorization: Bearer %s\r\n", worker->api_key);
    }
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
write_tokenize(const struct token_question *q, struct buf *out)
{
    const struct ask_parts *parts = &q->parts;
    bool chat = q->api == SCAN_API_CHAT;
    struct scan_text model = quoted(&parts->model);

    add_part(out, &q->body, chat ? "messages" : "prompt", &parts->prompt);
    add_part(out, &q->body, "model", &model);
    if (chat) {
        add_part(out, &q->body, "tools", &parts->tools);
    }
    for (unsigned i = 0; i < SCAN_OPTIONS; i++) {
        if (chat || i == SCAN_ADD_SPECIAL_TOKENS) {
            add_part(out, &q->body, scan_option_name((enum scan_option)i),
                     &parts->options[i]);
        }
    }
    buf_add_text(out, "}");
}

/* Without this member, images come back as the tensors that they were made
 * into; with it, the answer has their layout alone. */
static void
write_media_render(const struct token_question *q, struct buf *out)
{
    struct slice body = buf_slice(&q->body);
    const char *brace = memchr(body.ptr, '{', body.len);

    CHECK(brace != NULL); /* it was scanned */
    body.len -= (size_t)(brace + 1 - body.ptr);
    body.ptr = brace + 1;
    buf_add_text(out, "{\"return_mm_kwargs\":false,");
    buf_add_slice(out, body);
}

const char *
ask_text_path(const struct token_question *q, char out[ASK_PATH_MAX])
{
    static const char *const renderers[SCAN_APIS] = {
        [SCAN_API_TEXT] = "/v1/completions/render",
        [SCAN_API_CHAT] = "/v1/chat/completions/render",
        [SCAN_API_RESPONSES] = "/v1/responses/render",
        [SCAN_API_MESSAGES] = "/v1/messages/render",
    };

    CHECK(q->way != ASK_NOTHING && renderers[q->api] != NULL);
    (void)snprintf(out, ASK_PATH_MAX, "%s%s", q->url.path,
                   q->way == ASK_RENDER ? renderers[q->api] : "/tokenize");
    return out;
}

struct slice
ask_text_body(const struct token_question *q, struct buf *room)
{
    CHECK(q->way != ASK_NOTHING);
    if (q->way == ASK_RENDER && !q->media) {
        return buf_slice(&q->body); /* as it came */
    }
    if (q->way == ASK_RENDER) {
        write_media_render(q, room);
    } else {
        write_tokenize(q, room);
    }
    return buf_slice(room);
}
