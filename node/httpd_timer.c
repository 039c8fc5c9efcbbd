#include "node/httpd_conn.h"

/* How long a client may go on sending after our last answer. */
#define LINGER_MS 2000

static void on_timer(uv_timer_t *timer);

static void
start_timer(struct httpd *httpd, uint64_t due_ms)
{
    uint64_t now_ms = uv_now(httpd->loop);

    if (due_ms >= httpd->timer_due_ms || httpd->freed) {
        return;
    }
    httpd->timer_due_ms = due_ms;
    /* Fails only for a closing handle. */
    (void)uv_timer_start(&httpd->timer, on_timer,
                         due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

static void
expire(struct httpd *httpd, struct link *list, uint64_t now_ms)
{
    while (!link_is_empty(list)) {
        struct httpd_conn *conn =
            LINK_OWNER(list->next, struct httpd_conn, deadline);
        if (conn->due_ms > now_ms) {
            start_timer(httpd, conn->due_ms);
            return;
        }
        link_remove(&conn->deadline);
        httpd_conn_expired(conn);
    }
}

/* Deadlines are not taken out of the timer when they are met: it fires at the
 * time of the first one set, and then looks. */
static void
on_timer(uv_timer_t *timer)
{
    struct httpd *httpd = timer->data;
    uint64_t now_ms = uv_now(httpd->loop);

    httpd->timer_due_ms = UINT64_MAX;
    for (unsigned i = 0; i < HTTPD_DEADLINES; i++) {
        expire(httpd, &httpd->deadlines[i], now_ms);
    }
    if (httpd->resume_ms <= now_ms) {
        httpd->resume_ms = UINT64_MAX;
        httpd_resume(httpd);
    }
    if (httpd->resume_ms != UINT64_MAX) {
        start_timer(httpd, httpd->resume_ms);
    }
}

void
httpd_timer_init(struct httpd *httpd)
{
    for (unsigned i = 0; i < HTTPD_DEADLINES; i++) {
        link_init(&httpd->deadlines[i]);
    }
    httpd->durations_ms[HTTPD_DEADLINE_IDLE] = httpd->limits.idle_timeout_ms;
    httpd->durations_ms[HTTPD_DEADLINE_WRITE] = httpd->limits.write_timeout_ms;
    httpd->durations_ms[HTTPD_DEADLINE_LINGER] = LINGER_MS;
    httpd->resume_ms = UINT64_MAX;
    httpd->timer_due_ms = UINT64_MAX;
}

void
httpd_timer_arm(struct httpd_conn *conn, enum httpd_deadline which)
{
    struct httpd *httpd = conn->httpd;
    uint64_t duration_ms = httpd->durations_ms[which];

    link_remove(&conn->deadline);
    if (duration_ms == 0) {
        return;
    }
    conn->due_ms = uv_now(httpd->loop) + duration_ms;
    link_append(&httpd->deadlines[which], &conn->deadline);
    start_timer(httpd, conn->due_ms);
}

void
httpd_timer_disarm(struct httpd_conn *conn)
{
    link_remove(&conn->deadline);
}

void
httpd_timer_pause(struct httpd *httpd, uint64_t pause_ms)
{
    httpd->resume_ms = uv_now(httpd->loop) + pause_ms;
    start_timer(httpd, httpd->resume_ms);
}
