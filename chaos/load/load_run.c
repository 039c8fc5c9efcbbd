/* The users of a load: each speaks, reads its answer, thinks, speaks again. */
#include "chaos/load/load_run_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LINE_BYTES_MAX    1024
#define BAR_INTERVAL_MS   200
#define PLAIN_INTERVAL_MS 5000
#define ANSWER_BYTES_MAX  65536 /* of an error's body */

static uint64_t
now_us(void)
{
    return uv_hrtime() / 1000;
}

/* Progress */

static struct load_report
report_now(struct load_run *run, uint64_t us)
{
    return (struct load_report){
        .options = run->options,
        .stats = &run->stats,
        .elapsed_us = us - run->started_us,
        .not_sent = run->not_sent,
    };
}

/* Leaves the line to others. */
static void
erase_bar(const struct load_run *run)
{
    if (run->bar) {
        (void)fputs("\r\033[K", stderr);
    }
}

static void
show_progress(struct load_run *run, const char *end)
{
    struct load_report report = report_now(run, now_us());

    buf_clear(&run->line);
    load_report_progress(&report, run->bar, &run->line);
    if (!run->line.failed) {
        erase_bar(run);
        (void)fwrite(run->line.ptr, 1, run->line.len, stderr);
        (void)fputs(end, stderr);
    }
}

static void
on_progress(uv_timer_t *timer)
{
    struct load_run *run = timer->data;

    show_progress(run, run->bar ? "" : "\n");
}

/* Users */

static void next_conversation(struct load_user *user);
static void think(struct load_user *user);

static void
end_run(struct load_run *run)
{
    run->ended_us = now_us();
    show_progress(run, "\n");
    load_lookup_stop(&run->lookup);
    uv_close((uv_handle_t *)&run->progress, NULL);
    uv_close((uv_handle_t *)&run->terminate, NULL);
    uv_close((uv_handle_t *)&run->interrupt, NULL);
}

/* The user goes home. */
static void
leave(struct load_user *user)
{
    struct load_run *run = user->run;

    CHECK(user->call == NULL && run->users_left > 0);
    uv_close((uv_handle_t *)&user->timer, NULL);
    run->users_left--;
    if (run->users_left == 0) {
        end_run(run);
    }
}

/* Gives the conversation up before a turn. */
static void
give_up(struct load_user *user)
{
    user->run->not_sent += user->run->options->turns - user->turn;
    next_conversation(user);
}

static void
say_failed(const struct load_user *user, const struct load_end *end,
           unsigned status, int error)
{
    erase_bar(user->run);
    LOG_WARNING("request_failed", KV("kind", load_outcome_name(end->outcome)),
                KV("conversation", user->conversation), KV("turn", user->turn),
                KV("status", status), KV("worker", end->worker),
                KV("fault", user->sse.fault), KV_FAULT("error", error));
}

/* The request is over; head and error are what is known of its answer. */
static void
end_request(struct load_user *user, enum load_outcome outcome,
            const struct http_head *head, int error)
{
    struct load_run *run = user->run;
    struct load_end end = {
        .outcome = outcome,
        .worker = load_header_of(head, SLICE("x-kvasir-worker")),
        .node = load_header_of(head, SLICE("x-kvasir-node")),
        .at_us = now_us() - run->started_us,
        .has_first = user->first_us != 0,
        .first_us = user->first_us - user->sent_us,
        .whole_us = now_us() - user->sent_us,
        .usage = user->sse.usage,
    };

    user->call = NULL;
    load_stats_end(&run->stats, &end);
    if (outcome != LOAD_ANSWERED) {
        say_failed(user, &end, head == NULL ? 0 : head->status, error);
        user->turn++;
        give_up(user);
        return;
    }
    user->turn++;
    load_chat_open(&user->chat, "assistant");
    buf_add_slice(&user->chat.json, buf_slice(&user->sse.text));
    load_chat_close(&user->chat);
    if (user->turn == run->options->turns) {
        next_conversation(user);
    } else {
        think(user);
    }
}

static void send_once(struct load_user *user);

/* As far as is known no node took the request, and there is another target. */
static bool
may_retry(const struct load_user *user, const struct httpc_answer *answer)
{
    const struct load_run *run = user->run;

    return (answer->outcome == HTTPC_CONNECT ||
            answer->outcome == HTTPC_CLOSED) &&
           answer->head == NULL && run->lookup.targets.count > 1 &&
           user->attempt < run->options->retries;
}

static void
on_done(void *context, const struct httpc_answer *answer)
{
    struct load_user *user = context;
    struct load_run *run = user->run;

    if (answer->head == NULL) {
        load_targets_failed(&run->lookup.targets, user->target.key, now_us());
        load_lookup_again(&run->lookup);
    }
    if (may_retry(user, answer)) {
        user->call = NULL;
        user->tried[user->attempt++] = user->target.key;
        load_stats_retry(&run->stats, now_us() - run->started_us);
        send_once(user);
        return;
    }
    end_request(user, load_outcome_of(answer, user->sse.done), answer->head,
                answer->error);
}

static void
on_piece(void *context, struct slice piece)
{
    struct load_user *user = context;

    if (load_sse_feed(&user->sse, piece) != 0) {
        httpc_cancel(user->call);
        end_request(user, LOAD_BAD, NULL, 0);
        return;
    }
    if (user->first_us == 0 && user->sse.deltas > 0) {
        user->first_us = now_us();
    }
}

static void
send_once(struct load_user *user)
{
    struct load_run *run = user->run;
    const struct load_options *o = run->options;
    uint64_t which = rng_mix(
        o->seed ^ rng_mix((uint64_t)user->conversation << 32 | user->turn));
    const struct load_target *target = load_targets_pick(
        &run->lookup.targets, which, user->tried, user->attempt, now_us());
    struct httpc_request request = {
        .host = o->url.host,
        .port = o->url.port,
        .address = (const struct sockaddr *)&user->target.address,
        .method = "POST",
        .target = run->target,
        .headers = SLICE("Content-Type: application/json\r\n"
                         "Accept: text/event-stream\r\n"),
        .body = load_chat_body(&user->chat),
        .timeout_ms = (uint32_t)o->timeout_ms,
        .connect_ms = (uint32_t)o->connect_ms,
        .answer_bytes_max = ANSWER_BYTES_MAX,
        .context = user,
        .done = on_done,
        .piece = on_piece,
    };

    load_sse_restart(&user->sse);
    user->first_us = 0;
    if (target == NULL) {
        load_lookup_again(&run->lookup);
        end_request(user, LOAD_CONNECT, NULL, 0);
        return;
    }
    user->target = *target;
    int error = httpc_start(&user->call, run->loop, &request);
    if (error != 0) {
        end_request(user, LOAD_CONNECT, NULL, error);
    }
}

static void
on_thought(uv_timer_t *timer)
{
    struct load_user *user = timer->data;

    load_chat_open(&user->chat, "user");
    load_script_user(&user->run->script, user->conversation, user->turn,
                     &user->chat.json);
    load_chat_close(&user->chat);
    if (load_chat_body(&user->chat).len == 0) {
        erase_bar(user->run);
        LOG_WARNING("conversation_too_long",
                    KV("conversation", user->conversation),
                    KV("turn", user->turn));
        give_up(user);
        return;
    }
    user->attempt = 0;
    user->sent_us = now_us();
    load_stats_send(&user->run->stats);
    send_once(user);
}

static void
think(struct load_user *user)
{
    uint64_t pause_us =
        load_script_think(&user->run->script, user->conversation, user->turn);

    uv_update_time(user->run->loop);
    CHECK(uv_timer_start(&user->timer, on_thought, (pause_us + 500) / 1000,
                         0) == 0);
}

static void
next_conversation(struct load_user *user)
{
    struct load_run *run = user->run;
    const struct load_options *o = run->options;

    if (run->stopped || run->next_conversation == o->conversations) {
        leave(user);
        return;
    }
    user->conversation = (uint32_t)run->next_conversation++;
    user->turn = 0;
    load_chat_begin(&user->chat, o->model, o->max_tokens);
    if (o->groups > 0) {
        uint32_t group = load_script_group(&run->script, user->conversation);
        load_chat_open(&user->chat, "system");
        load_script_system(&run->script, group, &user->chat.json);
        load_chat_close(&user->chat);
    }
    think(user);
}

/* The beginning and the end */

static void
on_signal(uv_signal_t *handle, int number)
{
    struct load_run *run = handle->data;

    (void)number;
    if (run->stopped) {
        return;
    }
    run->stopped = true;
    if (run->users_count == 0) { /* the name is still being looked up */
        run->users_left = 0;
        end_run(run);
    }
    for (uint32_t i = 0; i < run->users_count; i++) {
        struct load_user *user = &run->users[i];
        if (user->call != NULL) {
            struct load_end end = {.outcome = LOAD_STOPPED};
            httpc_cancel(user->call);
            user->call = NULL;
            load_stats_end(&run->stats, &end);
        }
        if (!uv_is_closing((uv_handle_t *)&user->timer)) {
            leave(user);
        }
    }
}

static void
open_handles(struct load_run *run)
{
    CHECK(uv_timer_init(run->loop, &run->progress) == 0);
    CHECK(uv_signal_init(run->loop, &run->terminate) == 0);
    CHECK(uv_signal_init(run->loop, &run->interrupt) == 0);
    run->progress.data = run;
    run->terminate.data = run;
    run->interrupt.data = run;
    uint64_t every_ms = run->bar ? BAR_INTERVAL_MS : PLAIN_INTERVAL_MS;
    CHECK(uv_timer_start(&run->progress, on_progress, every_ms, every_ms) == 0);
    (void)uv_signal_start(&run->terminate, on_signal, SIGTERM);
    (void)uv_signal_start(&run->interrupt, on_signal, SIGINT);
}

static void
start_user(struct load_run *run, struct load_user *user)
{
    user->run = run;
    CHECK(uv_timer_init(run->loop, &user->timer) == 0);
    user->timer.data = user;
    load_chat_init(&user->chat, LOAD_CHAT_BYTES_MAX);
    load_sse_init(&user->sse, LOAD_CHAT_BYTES_MAX);
    next_conversation(user);
}

/* Where to send is known, as far as it can be. */
static void
on_known(void *context)
{
    struct load_run *run = context;
    uint32_t users = run->users_left;

    run->started_us = now_us();
    for (; run->users_count < users; run->users_count++) {
        start_user(run, &run->users[run->users_count]);
    }
}

int
load_run_init(struct load_run *run, uv_loop_t *loop,
              const struct load_options *options)
{
    uint64_t users = options->users < options->conversations
                         ? options->users
                         : options->conversations;

    *run = (struct load_run){.loop = loop, .options = options};
    run->script = load_options_script(options);
    run->bar = isatty(STDERR_FILENO) == 1;
    buf_init(&run->line, LINE_BYTES_MAX);
    (void)snprintf(run->target, sizeof(run->target), "%s/v1/chat/completions",
                   options->url.path);
    run->users = calloc(users, sizeof(*run->users));
    if (run->users == NULL) {
        return -ENOMEM;
    }
    int r =
        load_stats_init(&run->stats, options->conversations * options->turns);
    if (r != 0) {
        free(run->users);
        return r;
    }
    r = load_lookup_init(&run->lookup, loop, &options->url, &options->resolver);
    if (r != 0) {
        load_stats_fini(&run->stats);
        free(run->users);
        return r;
    }
    open_handles(run);
    run->started_us = now_us();
    run->users_left = (uint32_t)users;
    load_lookup_start(&run->lookup, on_known, run);
    return 0;
}

struct load_report
load_run_report(struct load_run *run)
{
    CHECK(run->users_left == 0);
    return report_now(run, run->ended_us);
}

void
load_run_fini(struct load_run *run)
{
    for (uint32_t i = 0; i < run->users_count; i++) {
        load_chat_fini(&run->users[i].chat);
        load_sse_fini(&run->users[i].sse);
    }
    free(run->users);
    load_stats_fini(&run->stats);
    buf_fini(&run->line);
}
