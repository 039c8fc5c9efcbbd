/* The server: one timer for the deadlines of all connections. */
#include "node/http/httpd_conn_internal.h"

/* How long a client may keep sending after our last answer. */
#define LINGER_US UINT64_C(2000000)

static void on_timer(uv_timer_t *timer);

static uint64_t
now_us(const struct httpd *httpd)
{
    return uv_now(httpd->loop) * 1000;
}

/* Has the timer fire at due_us at the latest. It is not set back when a
 * deadline is met: it fires at the first that was set, and then looks. */
static void
fire_by(struct httpd *httpd, uint64_t due_us)
{
    uint64_t now = now_us(httpd);

    if (due_us >= httpd->timer_due_us || httpd->freed) {
        return;
    }
    httpd->timer_due_us = due_us;
    /* Fails only for a closing handle. */
    (void)uv_timer_start(&httpd->timer, on_timer,
                         due_us > now ? (due_us - now + 999) / 1000 : 0, 0);
}

static void
on_timer(uv_timer_t *timer)
{
    struct httpd *httpd = timer->data;
    uint64_t now = now_us(httpd);

    httpd->timer_due_us = UINT64_MAX;
    for (unsigned i = 0; i < HTTPD_DEADLINES; i++) {
        struct deadline_list *list = &httpd->deadlines[i];
        struct deadline *due = NULL;
        while ((due = deadline_next_due(list, now)) != NULL) {
            httpd_conn_expired(LIST_OWNER(due, struct httpd_conn, deadline));
        }
        fire_by(httpd, deadline_list_next_us(list));
    }
    if (httpd->resume_us <= now) {
        httpd->resume_us = UINT64_MAX;
        httpd_resume(httpd);
    }
    fire_by(httpd, httpd->resume_us);
}

void
httpd_timer_init(struct httpd *httpd)
{
    const struct httpd_limits *limits = &httpd->limits;

    deadline_list_init(&httpd->deadlines[HTTPD_DEADLINE_IDLE],
                       limits->idle_timeout_ms * UINT64_C(1000));
    deadline_list_init(&httpd->deadlines[HTTPD_DEADLINE_WRITE],
                       limits->write_timeout_ms * UINT64_C(1000));
    deadline_list_init(&httpd->deadlines[HTTPD_DEADLINE_LINGER], LINGER_US);
    httpd->resume_us = UINT64_MAX;
    httpd->timer_due_us = UINT64_MAX;
}

void
httpd_timer_arm(struct httpd_conn *conn, enum httpd_deadline which)
{
    CHECK(which < HTTPD_DEADLINES);
    struct httpd *httpd = conn->httpd;
    struct deadline_list *list = &httpd->deadlines[which];

    deadline_set(&conn->deadline, list, now_us(httpd));
    fire_by(httpd, deadline_list_next_us(list));
}

void
httpd_timer_pause(struct httpd *httpd, uint64_t pause_us)
{
    httpd->resume_us = now_us(httpd) + pause_us;
    fire_by(httpd, httpd->resume_us);
}

void
httpd_timer_stop(struct httpd *httpd)
{
    httpd->timer_due_us = UINT64_MAX;
    (void)uv_timer_stop(&httpd->timer); /* cannot fail */
}
