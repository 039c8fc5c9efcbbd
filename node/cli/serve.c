/* A node's threads and ports from start to end: opened, announced, drained. */
#include "node/cli/serve_internal.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "index/base/role.h"
#include "node/base/log.h"
#include "node/base/port_fault.h"
#include "node/base/sock.h"
#include "node/cli/descriptors_internal.h"
#include "node/cli/notify_internal.h"
#include "node/cli/sandbox_internal.h"
#include "node/cli/summary_internal.h"
#include "node/control/admin.h"
#include "node/control/control.h"
#include "node/control/control_reload.h"
#include "node/edge/lane.h"

#define SETTLE_LOOK_MS 2U
#define SETTLE_LOOKS   500U /* for workers' first checks, at most */
#define DRAIN_LOOK_MS  20U
#define LEAVE_LOOKS    25U /* until the goodbye counts as lost */
#define CLOSE_S        5U  /* after it, for all that is left to close */
#define MORE_MEMORY                                                       \
    "give the node more memory, or lower limits.*, mirror.bytes_max and " \
    "belief.bytes_max"

struct serve {
    struct node_shared node;
    struct control control;
    struct snapshot *snapshot;
    struct control_reload *reload;
    struct lane *lanes[CONFIG_LANES_MAX];
    uint32_t lanes_made;
    uint32_t lanes_started;
    uv_signal_t terminate;
    uv_signal_t interrupt;
    uv_signal_t hang_up;
    uv_timer_t settled;   /* looks whether the lanes may start */
    uv_timer_t lame_duck; /* until it takes nothing new */
    uv_timer_t drained;   /* looks whether the lanes are done */
    uv_timer_t alive;     /* looks whether the lanes are alive */
    uint32_t settle_looks;
    uint32_t leave_looks;
    struct descriptors descriptors;
    struct notify notify;
    uint64_t ticks_seen[CONFIG_LANES_MAX];
    bool failed; /* it ends because of a failure, not on request */
    struct sockaddr_storage address;
    uint16_t port;
    struct sockaddr_storage gateways; /* of extproc.listen */
    uint16_t gateways_port;
};

/* Lanes */

static void
set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
    } else {
        ((struct sockaddr_in *)address)->sin_port = htons(port);
    }
}

static socklen_t
address_size(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

static int ON_CONTROL
make_lanes(struct serve *serve)
{
    const struct config *config = serve->node.config;
    const struct sockaddr *address = (const struct sockaddr *)&serve->address;

    socklen_t len = address_size(&serve->address);

    int error = sock_probe_free(address, len);
    if (error < 0) {
        return error;
    }
    for (uint32_t i = 0; i < config->lanes; i++) {
        error = lane_new(&serve->lanes[i], &serve->node, i, address, len,
                         rng_next(&serve->control.rng), &serve->port);
        if (error < 0) {
            return error;
        }
        serve->lanes_made++;
        /* The first one may have been given a free port: share that one. */
        set_port(&serve->address, serve->port);
    }
    return 0;
}

/* The lanes' port for gateways, if there is to be one. */
static int ON_CONTROL
listen_to_gateways(struct serve *serve)
{
    const struct url *listen = &serve->node.config->extproc.listen;
    const struct sockaddr *address = (const struct sockaddr *)&serve->gateways;

    if (listen->host[0] == '\0') {
        return 0;
    }
    int error = url_sockaddr(listen, &serve->gateways);
    if (error == 0) {
        error = sock_probe_free(address, address_size(&serve->gateways));
    }
    for (uint32_t i = 0; error == 0 && i < serve->lanes_made; i++) {
        error = lane_listen_to_gateways(serve->lanes[i], address,
                                        address_size(&serve->gateways),
                                        &serve->gateways_port);
        set_port(&serve->gateways, serve->gateways_port);
    }
    return error;
}

static int ON_CONTROL
start_lanes(struct serve *serve)
{
    for (uint32_t i = 0; i < serve->lanes_made; i++) {
        int error = lane_start(serve->lanes[i]);
        if (error < 0) {
            return error;
        }
        serve->lanes_started++;
        gauge_add(&serve->node.lanes_running, 1);
    }
    return 0;
}

static void ON_CONTROL
end_lanes(struct serve *serve)
{
    gauge_set(&serve->node.leaving, 1);
    gauge_set(&serve->node.draining, 1);
    for (uint32_t i = 0; i < serve->lanes_made; i++) {
        if (i < serve->lanes_started) {
            lane_wake(serve->lanes[i]);
            lane_join(serve->lanes[i]);
        } else {
            lane_free(serve->lanes[i]);
        }
    }
}

/* The end */

static volatile sig_atomic_t late_code;

/* All that matters is on disk and was said to others by now. */
static void
on_late(int number)
{
    static const char line[] = "kvasir: closing takes too long, ended\n";
    struct pollfd log = {.fd = STDERR_FILENO, .events = POLLOUT};

    (void)number;
    /* Whoever reads the log may stand still. */
    if (poll(&log, 1, 0) == 1 && log.revents == POLLOUT) {
        (void)!write(STDERR_FILENO, line, sizeof line - 1);
    }
    _exit(late_code);
}

/* Requests that draining did not wait for, so far. */
static uint64_t
count_cut_off(const struct serve *serve)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < serve->node.lanes_count; i++) {
        count += counter_read(&serve->node.lanes[i].metrics.cut_off);
    }
    return count;
}

/* It did all that it was asked to do, and broke nothing off. */
static bool
is_good(const struct serve *serve)
{
    return !serve->failed && count_cut_off(serve) == 0;
}

/* Whatever a library still waits for, the process does not. */
static void
bound_the_end(const struct serve *serve)
{
    late_code = !is_good(serve);
    (void)signal(SIGALRM, on_late);
    (void)alarm(CLOSE_S);
}

/* A signal that nobody hears any more would end the process at once. It ends
 * already, and has its bound. */
static void
close_signals(struct serve *serve)
{
    uv_close((uv_handle_t *)&serve->terminate, NULL);
    uv_close((uv_handle_t *)&serve->interrupt, NULL);
    uv_close((uv_handle_t *)&serve->hang_up, NULL);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
}

static void
close_own_handles(struct serve *serve)
{
    close_signals(serve);
    uv_close((uv_handle_t *)&serve->settled, NULL);
    uv_close((uv_handle_t *)&serve->lame_duck, NULL);
    uv_close((uv_handle_t *)&serve->drained, NULL);
    uv_close((uv_handle_t *)&serve->alive, NULL);
}

static void
on_drained_look(uv_timer_t *timer)
{
    struct serve *serve = timer->data;

    role_is_control();
    if (gauge_read(&serve->node.lanes_running) != 0) {
        return;
    }
    /* The last requests are to be in the snapshot and in the log. */
    control_take_facts(&serve->control);
    if (!snapshot_finish(serve->snapshot)) {
        return;
    }
    peers_leave(serve->control.peers);
    if (peers_left(serve->control.peers) ||
        ++serve->leave_looks > LEAVE_LOOKS) {
        bound_the_end(serve);
        control_stop(&serve->control);
        close_own_handles(serve);
    }
}

static void
wake_lanes(struct serve *serve)
{
    for (uint32_t i = 0; i < serve->lanes_started; i++) {
        lane_wake(serve->lanes[i]);
    }
}

/* Nothing new is taken from here on. Called again, it says `sever` to lanes. */
static void ON_CONTROL
begin_drain(struct serve *serve)
{
    (void)uv_timer_stop(&serve->settled);
    (void)uv_timer_stop(&serve->lame_duck);
    gauge_set(&serve->node.leaving, 1);
    gauge_set(&serve->node.draining, 1);
    notify_stopping(&serve->notify);
    wake_lanes(serve);
    (void)uv_timer_start(&serve->drained, on_drained_look, 0, DRAIN_LOOK_MS);
}

/* Another node has our name. */
static void
on_refused(void *context)
{
    struct serve *serve = context;

    role_is_control();
    serve->failed = true;
    begin_drain(serve);
}

static void ON_CONTROL
drain(struct serve *serve)
{
    LOG_INFO("drain", KV("inflight", gauge_read(&serve->node.inflight)));
    begin_drain(serve);
}

static void
on_lame_duck_over(uv_timer_t *timer)
{
    role_is_control();
    drain(timer->data);
}

/* Serves on, but tells load balancers and clients to go elsewhere. */
static void ON_CONTROL
become_lame_duck(struct serve *serve, uint32_t ms)
{
    LOG_INFO("lame_duck", KV("signal", SIGTERM), KV("ms", ms));
    notify_stopping(&serve->notify);
    gauge_set(&serve->node.leaving, 1);
    wake_lanes(serve);
    (void)uv_timer_start(&serve->lame_duck, on_lame_duck_over, ms, 0);
}

/* Each signal is one step further; a person at a terminal (SIGINT) has told
 * load balancers already, or has none. */
static void
on_signal(uv_signal_t *handle, int number)
{
    struct serve *serve = handle->data;
    const struct node_live *live = publish_get(&serve->node.live);
    uint32_t lame_duck_ms = live->timeouts.lame_duck_ms;

    role_is_control();
    if (gauge_read(&serve->node.draining) != 0) {
        LOG_WARNING(
            "aborting", KV("signal", number),
            KV("hint", "open answers are cut off: clients have to ask again"));
        gauge_set(&serve->node.sever, 1);
        begin_drain(serve);
    } else if (gauge_read(&serve->node.leaving) == 0 && number == SIGTERM &&
               lame_duck_ms != 0) {
        become_lame_duck(serve, lame_duck_ms);
    } else {
        drain(serve);
    }
}

/* Another configuration. A manager that was told of the end hears of no
 * reload: "ready" after it would take the end back. */

static void
on_hang_up(uv_signal_t *handle, int number)
{
    struct serve *serve = handle->data;
    bool leaves = gauge_read(&serve->node.leaving) != 0;
    struct config_errors errors;

    (void)number;
    role_is_control();
    if (!leaves) {
        notify_reloading(&serve->notify, uv_hrtime() / 1000);
    }
    (void)!control_reload(&serve->control, NULL, &errors); /* it was logged */
    config_errors_fini(&errors);
    if (!leaves) {
        notify_ready(&serve->notify);
    }
}

static void
on_reloaded(void *owner)
{
    struct serve *serve = owner;

    role_is_control();
    descriptors_limit(&serve->descriptors);
    wake_lanes(serve);
}

/* Signs of life */

/* Whether the loop of each lane that runs has turned since the last look. */
static bool
lanes_turn(struct serve *serve)
{
    bool turn = true;

    for (uint32_t i = 0; i < serve->lanes_started; i++) {
        uint64_t ticks = counter_read(&serve->node.lanes[i].metrics.loop_ticks);
        turn = turn && ticks != serve->ticks_seen[i];
        serve->ticks_seen[i] = ticks;
    }
    return turn || gauge_read(&serve->node.draining) != 0;
}

static void
on_alive_look(uv_timer_t *timer)
{
    struct serve *serve = timer->data;

    role_is_control();
    if (lanes_turn(serve)) {
        notify_alive(&serve->notify);
    }
}

/* The beginning */

static void
open_own_handles(struct serve *serve)
{
    uv_loop_t *loop = &serve->control.loop;

    CHECK(uv_signal_init(loop, &serve->terminate) == 0);
    CHECK(uv_signal_init(loop, &serve->interrupt) == 0);
    CHECK(uv_signal_init(loop, &serve->hang_up) == 0);
    CHECK(uv_timer_init(loop, &serve->settled) == 0);
    CHECK(uv_timer_init(loop, &serve->lame_duck) == 0);
    CHECK(uv_timer_init(loop, &serve->drained) == 0);
    CHECK(uv_timer_init(loop, &serve->alive) == 0);
    serve->terminate.data = serve;
    serve->interrupt.data = serve;
    serve->hang_up.data = serve;
    serve->settled.data = serve;
    serve->lame_duck.data = serve;
    serve->drained.data = serve;
    serve->alive.data = serve;
    (void)uv_signal_start(&serve->terminate, on_signal, SIGTERM);
    (void)uv_signal_start(&serve->interrupt, on_signal, SIGINT);
    (void)uv_signal_start(&serve->hang_up, on_hang_up, SIGHUP);
    /* Who started us may leave its children to the kernel; we wait for ours. */
    (void)signal(SIGCHLD, SIG_DFL);
    if (serve->notify.period_ms != 0) {
        uint64_t ms = (serve->notify.period_ms + 1) / 2;
        (void)uv_timer_start(&serve->alive, on_alive_look, ms, ms);
    }
}

static void ON_CONTROL
say_ready(const struct serve *serve)
{
    const struct config *config = serve->node.config;
    const char *mesh = peers_address(serve->control.peers);
    char serving[URL_TEXT_MAX];
    char admin[URL_TEXT_MAX];
    char metrics[URL_TEXT_MAX] = "";
    char gateways[URL_TEXT_MAX] = "";
    struct url url = config->listen;

    url.port = serve->port;
    (void)url_authority(&url, serving);
    url = config->admin;
    url.port = httpd_port(serve->control.admin);
    (void)url_authority(&url, admin);
    url = config->admin_access.metrics;
    if (serve->control.metrics != NULL) {
        url.port = httpd_port(serve->control.metrics);
        (void)url_authority(&url, metrics);
    }
    url = config->extproc.listen;
    if (url.host[0] != '\0') {
        url.port = serve->gateways_port;
        (void)url_authority(&url, gateways);
    }
    notify_ready(&serve->notify);
    printf("ready serve=%s admin=%s%s%s%s%s%s%s\n", serving, admin,
           mesh != NULL ? " mesh=" : "", mesh != NULL ? mesh : "",
           metrics[0] != '\0' ? " metrics=" : "", metrics,
           gateways[0] != '\0' ? " extproc=" : "", gateways);
    (void)fflush(stdout);
    LOG_INFO("ready", KV("node", config->name), KV("serve", serving),
             KV("admin", admin), KV("mesh", mesh != NULL ? mesh : "none"),
             KV("lanes", config->lanes), KV("workers", config->workers_count));
    summary_log(&serve->control, &(struct summary_ports){{
                                     [SUMMARY_LISTEN] = serving,
                                     [SUMMARY_ADMIN] = admin,
                                     [SUMMARY_METRICS] = metrics,
                                     [SUMMARY_EXTPROC] = gateways,
                                     [SUMMARY_MESH] = mesh != NULL ? mesh : "",
                                 }});
    if (config->workers_count == 0 && mesh == NULL) {
        LOG_WARNING("no_workers",
                    KV("hint", "requests are refused until a worker is added: "
                               "--worker URL, or POST /admin/workers"));
    }
}

static void
say_listen_failed(const struct url *listen, const struct sockaddr *address,
                  int error)
{
    char holder[PORT_FAULT_TEXT_MAX];

    LOG_ERROR("listen_failed", KV("host", listen->host),
              KV("port", listen->port), KV_FAULT("error", error),
              KV("holder", port_fault_holder(error, address, holder)),
              KV("hint", port_fault_hint(error)));
}

/* Opens all ports; clients wait in the listeners' queues until lanes run. 0, or
 * -errno and a line was logged. */
static int ON_CONTROL
open_ports(struct serve *serve)
{
    const struct config *config = serve->node.config;
    const struct sockaddr *address = (const struct sockaddr *)&serve->address;

    int error = url_sockaddr(&config->listen, &serve->address);
    if (error == 0) {
        error = make_lanes(serve);
    }
    if (error < 0) {
        say_listen_failed(&config->listen, address, error);
        return error;
    }
    error = listen_to_gateways(serve);
    if (error < 0) {
        say_listen_failed(&config->extproc.listen,
                          (const struct sockaddr *)&serve->gateways, error);
        return error;
    }
    error = admin_open(&serve->control);
    if (error < 0) {
        return error;
    }
    descriptors_reserve(&serve->descriptors);
    descriptors_limit(&serve->descriptors);
    return 0;
}

static void
say_start_failed(int error)
{
    bool descriptors = error == -EMFILE || error == -ENFILE;

    LOG_ERROR("start_failed", KV_FAULT("error", error),
              KV("hint", error == -ENOMEM ? MORE_MEMORY
                         : descriptors
                             ? port_fault_hint(error)
                             : "the line before says what could not be had"));
}

static void ON_CONTROL
begin_serving(struct serve *serve)
{
    int error = start_lanes(serve);

    if (error == 0) {
        say_ready(serve);
    } else {
        say_start_failed(error);
        serve->failed = true;
        begin_drain(serve);
    }
}

/* A worker takes requests after its first check. Before that a node that has
 * just started would refuse what its workers could serve. */
static void
on_settle_look(uv_timer_t *timer)
{
    struct serve *serve = timer->data;
    struct worker_set unchecked = fleet_unchecked(serve->control.fleet);

    role_is_control();
    if (worker_set_empty(&unchecked) || ++serve->settle_looks > SETTLE_LOOKS) {
        (void)uv_timer_stop(timer);
        begin_serving(serve);
    }
}

/* True: nothing was, and nothing else failed. */
static bool
say_what_was_cut_off(const struct serve *serve)
{
    uint64_t count = count_cut_off(serve);

    if (count != 0) {
        LOG_WARNING(
            "requests_cut_off", KV("count", count),
            KV("hint",
               "they outlasted timeouts.drain, or a second signal came: raise "
               "it if answers take longer, and send one signal alone"));
    }
    return is_good(serve);
}

static void
ignore_signals(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);  /* until it can reload */
    (void)signal(SIGUSR1, SIG_IGN); /* means nothing, and ends nothing */
    (void)signal(SIGUSR2, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* costs a snapshot, as a full disk does */
}

/* NULL, and a line that says so: there is no memory. */
static struct serve *
make_serve(const char *commit)
{
    struct serve *serve = aligned_alloc(64, (sizeof(*serve) + 63) / 64 * 64);

    if (serve == NULL) {
        LOG_ERROR("out_of_memory", KV("hint", MORE_MEMORY));
        return NULL;
    }
    memset(serve, 0, sizeof(*serve));
    serve->node.commit = commit;
    return serve;
}

int
serve_run(const struct config_sources *sources, const struct config *config,
          const char *commit)
{
    struct serve *serve = make_serve(commit);
    int error;

    if (serve == NULL) {
        return 1;
    }
    ignore_signals();
    if (snapshot_open(&serve->snapshot, config) < 0) {
        free(serve);
        return 1;
    }
    if (!sandbox_begin(config, &serve->node.confined)) {
        snapshot_free(serve->snapshot);
        free(serve);
        return 1;
    }
    descriptors_raise(&serve->descriptors, &serve->node, config);
    role_is_control();
    error = shared_init(&serve->node, config);
    if (error == 0) {
        error = control_reload_new(&serve->reload, sources, config);
    }
    if (error == 0) {
        error = control_init(&serve->control, &serve->node, serve->snapshot,
                             uv_hrtime());
    }
    if (error < 0) {
        say_start_failed(error);
        control_reload_free(serve->reload);
        snapshot_free(serve->snapshot);
        shared_fini(&serve->node);
        free(serve);
        return 1;
    }
    notify_open(&serve->notify, environ, getpid());
    serve->control.refused = on_refused;
    serve->control.reloaded = on_reloaded;
    serve->control.owner = serve;
    serve->control.reload = serve->reload;
    open_own_handles(serve);
    if (open_ports(serve) == 0) {
        (void)uv_timer_start(&serve->settled, on_settle_look, 0,
                             SETTLE_LOOK_MS);
    } else {
        serve->failed = true;
        bound_the_end(serve);
        control_stop(&serve->control);
        close_own_handles(serve);
    }
    (void)uv_run(&serve->control.loop, UV_RUN_DEFAULT);
    notify_close(&serve->notify);
    end_lanes(serve);
    control_fini(&serve->control);
    control_reload_free(serve->reload);
    snapshot_free(serve->snapshot);
    bool ok = say_what_was_cut_off(serve);
    shared_fini(&serve->node);
    free(serve);
    LOG_INFO("stopped", KV("ok", ok));
    return ok ? 0 : 1;
}
