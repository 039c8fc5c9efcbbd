/*
 * Embeddings: a text's vector counts its runs of four signs, each at a place and
 * with a sign by its hash. So texts that share most of their words are near, which
 * is all that a stand-in can know of what they mean.
 */
#include <math.h>
#include <string.h>

#include "chaos/engine/engine_http_internal.h"
#include "chaos/engine/engine_json_internal.h"
#include "index/base/ascii.h"
#include "index/index.h"

#define DIMENSIONS 256U

struct embedding {
    float at[DIMENSIONS];
    uint32_t run; /* the last four signs, the last of all lowest */
};

static void
count_sign(struct embedding *vector, uint32_t sign)
{
    vector->run = vector->run << 8 | sign;
    uint64_t hash = rng_mix(vector->run);
    vector->at[hash % DIMENSIONS] += (hash >> 32 & 1) != 0 ? 1.0F : -1.0F;
}

/* Any case of letters; all else is a gap, of one sign. An id without a text is a
 * sign of its own. */
static void
count_token(struct embedding *vector, uint32_t id)
{
    char text[ENGINE_TOKEN_BYTES_MAX];
    size_t len = engine_token_text(id, text);

    if (len == 0) {
        count_sign(vector, id);
    }
    for (size_t i = 0; i < len; i++) {
        char c = ascii_lower(text[i]);
        bool gap =
            (c < 'a' || c > 'z') && !ascii_is_digit(c) && (c & 0x80) == 0;
        if (!gap || (vector->run & 0xFF) != ' ') {
            count_sign(vector, gap ? ' ' : (uint8_t)c);
        }
    }
}

/* A string's text, or an array of ids. */
static void
count_text(struct engine_prompt *prompt, struct scan_text text, bool is_ids,
           struct embedding *vector)
{
    struct engine_ids *ids = &prompt->ids;
    struct slice plain = engine_prompt_text(prompt, text);

    ids->count = 0;
    if (is_ids) {
        ids->failed |= !engine_json_id_array(plain, ids);
    } else {
        engine_ids_add_text(ids, plain);
    }
    for (size_t i = 0; i < ids->count; i++) {
        count_token(vector, ids->ids[i]);
    }
}

/* One prompt of a list, raw. */
static void
count_item(struct engine_prompt *prompt, struct slice raw,
           struct embedding *vector)
{
    struct slice inside = engine_json_inside(raw);
    bool is_ids = inside.ptr == NULL;
    struct slice text = is_ids ? raw : inside;

    count_text(prompt,
               (struct scan_text){
                   .at = (uint32_t)(text.ptr - prompt->body.ptr),
                   .len = (uint32_t)text.len,
                   .present = true,
                   .escaped = memchr(text.ptr, '\\', text.len) != NULL,
               },
               is_ids, vector);
}

/* All that is no list. */
static void
count_spans(struct engine_prompt *prompt, struct embedding *vector)
{
    for (uint32_t i = 0; i < prompt->scan.spans_count; i++) {
        const struct scan_span *span = &prompt->scan.spans[i];
        count_text(prompt,
                   (struct scan_text){.at = span->at,
                                      .len = span->len,
                                      .present = true,
                                      .escaped = span->escaped},
                   span->kind == SCAN_IDS, vector);
    }
}

static void
norm(struct embedding *vector)
{
    double squares = 0;

    for (uint32_t d = 0; d < DIMENSIONS; d++) {
        squares += (double)vector->at[d] * (double)vector->at[d];
    }
    for (uint32_t d = 0; d < DIMENSIONS && squares > 0; d++) {
        vector->at[d] = (float)((double)vector->at[d] / sqrt(squares));
    }
}

/* The vector of the next of a list, or of all that there is. */
static void
embed(struct engine_prompt *prompt, struct json_pull *list,
      struct embedding *vector)
{
    struct slice item;

    *vector = (struct embedding){.run = ' '};
    if (list != NULL && engine_json_next(list, &item)) {
        count_item(prompt, item, vector);
    } else {
        count_spans(prompt, vector);
    }
    norm(vector);
}

static void
put_base64(struct buf *out, const unsigned char *bytes, size_t count)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < count; i += 3) {
        size_t have = count - i < 3 ? count - i : 3;
        uint32_t group = (uint32_t)bytes[i] << 16;
        group |= have > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
        group |= have > 2 ? bytes[i + 2] : 0;
        char text[4] = {digits[group >> 18], digits[group >> 12 & 63],
                        digits[group >> 6 & 63], digits[group & 63]};
        for (size_t c = have + 1; c < 4; c++) {
            text[c] = '=';
        }
        buf_add(out, text, sizeof(text));
    }
}

/* OpenAI's own clients ask for base64 unless told otherwise. object: and the name
 * of its member. */
static void
put_embedding(struct buf *out, const struct embedding *vector, uint32_t index,
              bool base64, const char *const object[2])
{
    buf_printf(out, "%s{\"object\":\"%s\",\"index\":%u,\"%s\":",
               index > 0 ? "," : "", object[0], index, object[1]);
    if (base64) {
        buf_add_text(out, "\"");
        put_base64(out, (const unsigned char *)vector->at, sizeof(vector->at));
        buf_add_text(out, "\"}");
        return;
    }
    for (uint32_t d = 0; d < DIMENSIONS; d++) {
        buf_printf(out, "%s%.9g", d > 0 ? "," : "[", (double)vector->at[d]);
    }
    buf_add_text(out, "]}");
}

static void
post_pooled(struct engine_server *s, struct httpd_request *request,
            const char *const object[2])
{
    const struct scan *scan = &s->prompt.scan;
    struct json_pull list;
    struct embedding vector;
    uint32_t model;

    if (!engine_server_scan(s, request, SCAN_API_EMBEDDINGS) ||
        !engine_server_find_model(s, request, &model) ||
        !engine_server_render(s, request, false)) {
        return;
    }
    size_t tokens = s->prompt.ids.count;
    bool base64 = engine_json_is_text(
        httpd_body(request), SLICE("encoding_format"), SLICE("base64"));
    buf_add_text(&s->out, "{\"object\":\"list\",\"data\":[");
    bool several =
        (scan->shape == SCAN_STRINGS || scan->shape == SCAN_ID_LISTS) &&
        engine_json_items(&list,
                          engine_json_raw(s->prompt.body, SLICE("input")));
    for (uint32_t i = 0; i < scan->prompts; i++) {
        embed(&s->prompt, several ? &list : NULL, &vector);
        put_embedding(&s->out, &vector, i, base64, object);
    }
    s->out.failed |= s->prompt.ids.failed;
    buf_printf(&s->out,
               "],\"model\":\"%s\",\"usage\":{\"prompt_tokens\":%zu,"
               "\"total_tokens\":%zu}}",
               s->options->models[model], tokens, tokens);
    engine_server_answer(s, request, "application/json");
}

void
engine_post_embeddings(struct engine_server *s, struct httpd_request *request)
{
    static const char *const object[2] = {"embedding", "embedding"};

    post_pooled(s, request, object);
}

/* Its model pools whole prompts, whatever task is named. */
void
engine_post_pooling(struct engine_server *s, struct httpd_request *request)
{
    static const char *const object[2] = {"pooling", "data"};

    post_pooled(s, request, object);
}
