/* kvasir-engine: the stand-in engine as a program. See --help. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/engine/engine_http_internal.h"
#include "node/node.h"

#define DESCRIPTORS (UINT64_C(1) << 20) /* one for each client */

enum {
    EXIT_FINE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2
};

static bool
announce(const struct engine_server *server)
{
    const char *host = server->options->host;
    bool v6 = strchr(host, ':') != NULL;

    const char *events = server->ranks[0].publisher.pub.url;
    const char *replay = server->ranks[0].publisher.replay.socket.url;

    return printf("ready http=%s%s%s:%u%s%s%s%s\n", v6 ? "[" : "", host,
                  v6 ? "]" : "", engine_server_port(server),
                  *events != '\0' ? " events=" : "", events,
                  *replay != '\0' ? " replay=" : "", replay) > 0 &&
           fflush(stdout) == 0;
}

static int
serve(const struct engine_options *options)
{
    struct engine_server *server = malloc(sizeof(*server));
    uv_loop_t loop;
    int result = EXIT_FAILED;
    char why[512];

    if (server == NULL || uv_loop_init(&loop) != 0) {
        free(server);
        return EXIT_FAILED;
    }
    struct engine_files files = {.table = NULL};
    if (options->tokens != NULL &&
        !engine_files_open(&files, options->tokens, options->models[0], why,
                           sizeof(why))) {
        (void)fprintf(stderr, "kvasir-engine: %s\n", why);
        goto close_loop;
    }
    int r = engine_server_init(server, &loop, options);
    if (r != 0) {
        (void)fprintf(stderr, "kvasir-engine: %s port %u: %s\n", options->host,
                      (unsigned)options->port, uv_strerror(r));
        goto close_loop;
    }
    server->files = files;
    LOG_INFO("engine_started", KV("name", options->name),
             KV("port", engine_server_port(server)),
             KV("blocks", options->blocks));
    if (announce(server)) {
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        result = EXIT_FINE;
    }
    engine_server_fini(server);
close_loop:
    CHECK(uv_loop_close(&loop) == 0 || result != EXIT_FINE);
    free(server);
    return result;
}

int
main(int argc, char **argv)
{
    (void)argc;
    struct engine_options options;
    char fault[512];

    if (engine_options_parse(&options, argv, fault, sizeof(fault)) != 0) {
        (void)fprintf(stderr, "kvasir-engine: %s\n", fault);
        return EXIT_USAGE;
    }
    if (options.help) {
        return flags_print(engine_options_help) ? EXIT_FINE : EXIT_FAILED;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sock_raise_limit(DESCRIPTORS);
    return serve(&options);
}
