/*
 * The intake alone, for test_events.py: follows one worker, prints what comes
 * out of the ring as JSON lines, and takes commands from stdin.
 *
 *   intake_drive EVENTS REPLAY|- RANKS TOPIC [KEY VALUE]...
 *
 *   numbers         counters and levels of all ranks
 *   reread RANK     read it again
 *   remove, add     stop and go on following
 *   pause, resume   leave the ring alone
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "node/base/log.h"
#include "node/events/intake.h"

#define FLAGS_MAX 16

static struct config config;
static struct intake *intake;
static struct intake_worker worker = {
    .slot = 7, .generation = 1, .identity = 42, .id = "engine"};
static uv_loop_t loop;
static uv_async_t wake;
static uv_poll_t commands;
static bool paused;
static uint64_t asks;

static void
print_record(const struct event_record *record)
{
    printf(",\"seq\":%" PRIu64 ",\"holes\":%" PRIu32
           ",\"block_tokens\":%" PRIu32 ",\"worker\":%" PRIu64 ",\"ops\":[",
           record->seq, record->holes, record->block_tokens,
           record->stream.worker);
    for (uint32_t at = 0; at < record->words_count;) {
        uint64_t op = record->words[at];
        uint32_t count = event_op_count(op);
        static const char *const kinds[] = {"store", "remove", "clear"};
        printf("%s[\"%s\",\"%s\",[", at > 0 ? "," : "",
               kinds[event_op_kind(op)], event_tier_name(event_op_tier(op)));
        for (uint32_t i = 0; i < count; i++) {
            printf("%s\"%016" PRIx64 "\"", i > 0 ? "," : "",
                   record->words[at + 1 + i]);
        }
        printf("]]");
        at += 1 + count;
    }
    printf("]");
}

static void
print_item(const struct intake_item *item)
{
    static const char *const kinds[] = {
        [INTAKE_BEGIN] = "begin", [INTAKE_RECORD] = "record",
        [INTAKE_GAP] = "gap",     [INTAKE_PROVED] = "proved",
        [INTAKE_STATE] = "state",
    };

    printf("{\"kind\":\"%s\",\"slot\":%" PRIu32 ",\"generation\":%" PRIu32
           ",\"rank\":%" PRIu32 ",\"state\":\"%s\"",
           kinds[item->kind], item->worker, item->generation, item->rank,
           kv_stream_state_name((enum kv_stream_state)item->state));
    if (item->kind == INTAKE_RECORD) {
        print_record((const void *)(item + 1));
    }
    if (item->kind == INTAKE_RECORD) {
        printf(",\"last\":%s", item->last ? "true" : "false");
    }
    if (item->kind == INTAKE_BEGIN) {
        printf(",\"process\":\"%016" PRIx64 "\",\"whole\":%s,\"ask\":%" PRIu64
               ",\"reason\":\"%s\"",
               item->process, item->whole ? "true" : "false", item->ask,
               item->reason);
    }
    printf("}\n");
}

static void
take_items(void)
{
    const void *item;
    size_t size;

    while (!paused && (item = ring_peek(intake_ring(intake), &size)) != NULL) {
        print_item(item);
        ring_consume(intake_ring(intake));
    }
    (void)fflush(stdout);
}

static void
on_wake(uv_async_t *handle)
{
    (void)handle;
    take_items();
}

static void
print_numbers(void)
{
    const struct intake_numbers *n;

    for (uint32_t rank = 0;
         (n = intake_numbers(intake, worker.slot, rank)) != NULL; rank++) {
        printf(
            "{\"kind\":\"numbers\",\"rank\":%" PRIu32
            ",\"state\":\"%s\",\"next_seq\":%" PRIu64,
            rank,
            kv_stream_state_name((enum kv_stream_state)gauge_read(&n->state)),
            counter_read(&n->next_seq));
#define PRINT(name, help) \
    printf(",\"" #name "\":%" PRIu64, counter_read(&n->kv.name));
        KV_COUNTERS(PRINT)
        printf("}\n");
    }
    printf("{\"kind\":\"done\"}\n");
}

static void
obey(const char *line)
{
    int outcome = 0;

    if (strcmp(line, "numbers") == 0) {
        print_numbers();
    } else if (strncmp(line, "reread ", 7) == 0) {
        outcome =
            intake_reread(intake, worker.slot, worker.generation,
                          (uint32_t)strtoul(line + 7, NULL, 10), ++asks, false);
    } else if (strcmp(line, "remove") == 0) {
        outcome = intake_remove(intake, worker.slot, worker.generation);
    } else if (strcmp(line, "add") == 0) {
        worker.generation++;
        outcome = intake_add(intake, &worker);
    } else if (strcmp(line, "pause") == 0) {
        paused = true;
    } else if (strcmp(line, "resume") == 0) {
        paused = false;
        take_items();
    }
    if (outcome != 0) {
        printf("{\"kind\":\"refused\",\"outcome\":%d}\n", outcome);
    }
    (void)fflush(stdout);
}

static void
on_commands(uv_poll_t *handle, int status, int events)
{
    static char text[4096];
    static size_t len;
    (void)status;
    (void)events;

    ssize_t got = read(0, text + len, sizeof text - len - 1);
    if (got <= 0) {
        (void)uv_poll_stop(handle);
        uv_close((uv_handle_t *)handle, NULL);
        intake_free(intake); /* before the handle that it rings */
        uv_close((uv_handle_t *)&wake, NULL);
        return;
    }
    len += (size_t)got;
    text[len] = '\0';
    for (char *end; (end = strchr(text, '\n')) != NULL;) {
        *end = '\0';
        obey(text);
        len -= (size_t)(end + 1 - text);
        memmove(text, end + 1, len + 1);
    }
}

static int
usage(const char *what)
{
    (void)fprintf(stderr, "intake_drive: %s\n", what);
    return 2;
}

static int
read_arguments(int argc, char **argv)
{
    struct config_flag flags[FLAGS_MAX];
    struct config_errors errors;
    size_t count = 0;

    if (argc < 5 || argc > 5 + 2 * FLAGS_MAX) {
        return usage("EVENTS REPLAY|- RANKS TOPIC [KEY VALUE]...");
    }
    const char *fault = url_parse_events(slice_of(argv[1]), &worker.events);
    if (fault == NULL && strcmp(argv[2], "-") != 0) {
        fault = url_parse_events(slice_of(argv[2]), &worker.replay);
    }
    if (fault != NULL) {
        return usage(fault);
    }
    worker.ranks = (uint32_t)strtoul(argv[3], NULL, 10);
    (void)snprintf(worker.topic, sizeof worker.topic, "%s", argv[4]);
    for (int i = 5; i + 1 < argc; i += 2) {
        flags[count++] =
            (struct config_flag){.key = argv[i], .value = argv[i + 1]};
    }
    config_init(&config);
    config_errors_init(&errors);
    config_apply_flags(&config, flags, count, &errors);
    config_complete_events(&config);
    bool good = errors.count == 0;
    config_errors_fini(&errors);
    return good ? 0 : usage("bad configuration");
}

int
main(int argc, char **argv)
{
    int outcome = read_arguments(argc, argv);

    if (outcome != 0) {
        return outcome;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    log_init(&(struct log_options){
        .level = LOG_LEVEL_INFO, .format = LOG_FORMAT_LOGFMT, .fd = 2});
    CHECK(uv_loop_init(&loop) == 0);
    CHECK(uv_async_init(&loop, &wake, on_wake) == 0);
    CHECK(fcntl(0, F_SETFL, O_NONBLOCK) == 0);
    CHECK(uv_poll_init(&loop, &commands, 0) == 0);
    CHECK(uv_poll_start(&commands, UV_READABLE, on_commands) == 0);
    CHECK(intake_new(&intake, &config, &wake, 1) == 0);
    CHECK(intake_start(intake) == 0);
    CHECK(intake_add(intake, &worker) == 0);
    printf("ready\n");
    (void)fflush(stdout);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
    config_fini(&config);
    return 0;
}
