/* Answers that one make of engine alone has. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/engine/engine_http_internal.h"

/* llama.cpp's, unless it was started with --metrics. */
void
engine_get_no_metrics(struct engine_server *s, struct httpd_request *request)
{
    (void)s;
    httpd_error(request, 501, "not_supported_error",
                "This server does not support metrics endpoint. Start it with "
                "`--metrics`");
}

/* TensorRT-LLM's statistics of iterations, which are not kept here. */
void
engine_get_iterations(struct engine_server *s, struct httpd_request *request)
{
    buf_add_text(&s->out, "[]");
    engine_server_answer(s, request, "application/json");
}

/* The last number of a URL; 0: there is none. */
static unsigned
port_of(const char *url)
{
    const char *colon = strrchr(url, ':');

    return colon != NULL ? (unsigned)strtoul(colon + 1, NULL, 10) : 0;
}

/* SGLang tells here where its events are. */
void
engine_get_server_info(struct engine_server *s, struct httpd_request *request)
{
    const struct engine_options *o = s->options;
    const char *url = s->ranks[0].publisher.pub.url;

    buf_printf(&s->out,
               "{\"page_size\":%" PRIu64 ",\"kv_events\":", o->block_size);
    if (*url == '\0') {
        buf_add_text(&s->out, "null}");
    } else {
        buf_printf(&s->out,
                   "{\"publisher\":\"zmq\",\"endpoint_host\":\"*\","
                   "\"endpoint_port_base\":%u,\"topic\":\"%s\","
                   "\"block_size\":%" PRIu64 ",\"dp_size\":%u}}",
                   port_of(url), o->event_topic != NULL ? o->event_topic : "",
                   o->block_size, s->ranks_count);
    }
    engine_server_answer(s, request, "application/json");
}

/* What llama.cpp's slots do. */
void
engine_get_slots(struct engine_server *s, struct httpd_request *request)
{
    const struct engine *engine = &s->ranks[0].engine;
    struct engine_stats stats;

    engine_stats(engine, &stats);
    for (uint32_t i = 0; i < engine->config.running_max; i++) {
        buf_printf(&s->out,
                   "%s{\"id\":%u,\"id_task\":%d,\"n_ctx\":%u,"
                   "\"speculative\":false,\"is_processing\":%s}",
                   i == 0 ? "[" : ",", i, i < stats.running ? 1 : -1,
                   engine->config.request_tokens_max,
                   i < stats.running ? "true" : "false");
    }
    buf_add_text(&s->out, "]");
    engine_server_answer(s, request, "application/json");
}

/* llama.cpp's takes `content`; to any other question it answers with no
 * tokens. */
void
engine_post_no_tokens(struct engine_server *s, struct httpd_request *request)
{
    buf_add_text(&s->out, "{\"tokens\":[]}");
    engine_server_answer(s, request, "application/json");
}
