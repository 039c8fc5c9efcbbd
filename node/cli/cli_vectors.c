/* Asks an engine for vectors, and waits for them. */
#include "node/cli/cli_vectors_internal.h"

#include <signal.h>
#include <stdio.h>

#include "node/text/quote.h"

bool
cli_vectors_open(struct cli_vectors *vectors, const char *url,
                 const char *model)
{
    static const struct sock_tls_files files = {
        .cert = "", .key = "", .ca = ""};
    const char *why = "out of memory";
    char quoted[QUOTE_ROOM];
    struct url parsed;

    *vectors = (struct cli_vectors){.model = model, .why = ""};
    if (url == NULL) {
        return true;
    }
    const char *want = url_parse_web(slice_of(url), &parsed);
    if (want != NULL) {
        (void)fprintf(stderr,
                      "kvasir route-test: --embeddings: expected %s, not %s\n",
                      want, quote_text(slice_of(url), quoted));
        return false;
    }
    if (parsed.tls &&
        sock_tls_context_new_client(&vectors->tls, &files, &why) != 0) {
        (void)fprintf(stderr, "kvasir route-test: --embeddings: %s\n", why);
        return false;
    }
    if (uv_loop_init(&vectors->loop) != 0) {
        (void)fprintf(stderr, "kvasir route-test: out of memory\n");
        return false;
    }
    vectors->url = url;
    (void)signal(SIGPIPE, SIG_IGN);
    return true;
}

static void
on_vector(void *context, const struct httpc_answer *answer)
{
    struct cli_vectors *vectors = context;

    vectors->vector = embedding_read(answer);
    vectors->why = answer->outcome == HTTPC_OK
                       ? "it answers with no vector"
                       : httpc_outcome_name(answer->outcome);
}

struct text_vector *
cli_vectors_ask(struct cli_vectors *vectors, struct slice text)
{
    const struct embedding_ask ask = {
        .url = vectors->url,
        .api_key = "",
        .tls = vectors->tls,
        .timeout_ms = CLI_VECTORS_TIMEOUT_MS,
        .context = vectors,
        .done = on_vector,
        .model = vectors->model,
        .text = text,
    };
    struct httpc *call;

    CHECK(vectors->url != NULL);
    vectors->vector = NULL;
    vectors->why = "it cannot be called";
    if (embedding_start(&call, &vectors->loop, &ask) == 0) {
        (void)uv_run(&vectors->loop, UV_RUN_DEFAULT);
    }
    return vectors->vector;
}

void
cli_vectors_close(struct cli_vectors *vectors)
{
    sock_tls_context_free(vectors->tls);
    if (vectors->url != NULL) {
        CHECK(uv_loop_close(&vectors->loop) == 0);
        (void)signal(SIGPIPE, SIG_DFL);
    }
}
