/* Chat requests of other APIs: what these have in common. */
#include "node/dialect/dialect_making_internal.h"

void
dialect_refuse(struct dialect_making *m, const char *why)
{
    if (m->why == NULL) {
        m->why = why;
    }
}

bool
dialect_open(struct dialect_making *m, const struct dialect_value *object,
             const char *const *names, size_t count,
             struct dialect_value *values)
{
    if (!dialect_members(object->raw, names, count, values)) {
        dialect_refuse(m, "a part of it that should be an object is none");
        return false;
    }
    return m->why == NULL;
}

bool
dialect_begin(struct dialect_making *m, struct slice body,
              const char *const *names, size_t count,
              struct dialect_value *values)
{
    if (!dialect_members(body, names, count, values)) {
        dialect_refuse(m, "it is no JSON object, or nested too deeply");
        return false;
    }
    if (values[0].kind != PULL_STRING) {
        dialect_refuse(m, "it names no model");
        return false;
    }
    buf_add_text(m->out, "{\"model\":");
    buf_add_slice(m->out, values[0].raw);
    buf_add_text(m->out, ",\"messages\":[");
    return true;
}

void
dialect_next(struct dialect_making *m)
{
    if (m->some) {
        buf_add_text(m->out, ",");
    }
    m->some = true;
}

void
dialect_put_text(struct dialect_making *m, struct slice text)
{
    if (text.len != 0) {
        dialect_next(m);
        buf_add_text(m->out, "{\"type\":\"text\",\"text\":\"");
        buf_add_slice(m->out, text);
        buf_add_text(m->out, "\"}");
    }
}

void
dialect_put_salt(struct dialect_making *m, struct slice salt,
                 const struct dialect_value *own)
{
    if (salt.len != 0) {
        buf_add_text(m->out, ",\"cache_salt\":");
        buf_add_slice(m->out, salt);
    } else {
        dialect_put(m->out, "cache_salt", own);
    }
}

void
dialect_put_stream(struct dialect_making *m, const struct dialect_value *stream)
{
    if (stream->kind == PULL_TRUE) {
        buf_add_text(m->out, ",\"stream\":true,\"stream_options\":"
                             "{\"include_usage\":true");
        buf_add_text(m->out,
                     m->each ? ",\"continuous_usage_stats\":true}" : "}");
    }
}

bool
dialect_request(enum dialect api, struct slice body, struct slice salt,
                bool each, struct buf *out, const char **why)
{
    struct dialect_making m = {.out = out, .each = each};

    if (api == DIALECT_RESPONSES) {
        dialect_from_responses(&m, body, salt);
    } else {
        dialect_from_messages(&m, body, salt, api == DIALECT_COUNT);
    }
    *why = m.why;
    return m.why == NULL && !out->failed;
}
