/*
 * The server of the httpd benchmark: node/http/httpd.h answering every request with
 * a chat completion of 1 KB. Prints `ready http=H:P`, runs until SIGTERM.
 *
 * Role: shell, a test program. Thread: one.
 */
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "node/node.h"

#define ANSWER_BYTES 1024

static char answer[ANSWER_BYTES];

static void
on_request(void *context, struct httpd_request *request)
{
    (void)context;
    httpd_answer(request, 200, "application/json", SLICE(""),
                 (struct slice){.ptr = answer, .len = sizeof(answer)});
}

static void
on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    httpd_free(handle->data);
    uv_close((uv_handle_t *)handle, NULL);
}

int
main(void)
{
    static const struct httpd_limits limits = {.connections_max = 1024,
                                               .head_bytes_max = 16384,
                                               .body_bytes_max = 1 << 20,
                                               .unsent_bytes_max = 1 << 20,
                                               .idle_timeout_ms = 60000,
                                               .write_timeout_ms = 60000};
    static const struct httpd_handler handler = {.request = on_request};
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct httpd *httpd = NULL;
    uv_signal_t term;
    uv_loop_t loop;

    memset(answer, 'x', sizeof(answer));
    if (uv_loop_init(&loop) != 0 || uv_signal_init(&loop, &term) != 0 ||
        uv_signal_start(&term, on_signal, SIGTERM) != 0 ||
        httpd_new(&httpd, &loop, (struct sockaddr *)&address, &limits,
                  &handler) != 0) {
        (void)fprintf(stderr, "cannot listen\n");
        return 1;
    }
    term.data = httpd;
    (void)printf("ready http=127.0.0.1:%u\n", (unsigned)httpd_port(httpd));
    (void)fflush(stdout);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) != 0;
}
