/*
 * What the files of the server share: the server, its connections, and which
 * file moves a connection from one state to the next.
 *
 *   httpd.c         listener, limits, the life of server and connections
 *   httpd_timer.c   deadlines, one timer for all
 *   httpd_conn.c    bytes in: IDLE -> HEAD -> BODY -> BUSY
 *   httpd_answer.c  the handler's calls: BUSY -> FLUSH
 *   httpd_out.c     bytes out: FLUSH -> IDLE or the end
 *
 *   IDLE -> HEAD -> BODY -> BUSY -> FLUSH -> IDLE ...
 *              \______\______________^  \--> LINGER --> CLOSED
 *            (answers of our own)
 *
 * Any state may go to CLOSED at once, which closes the socket; a request that
 * the handler still has then is reported gone from the close callback, so that
 * no call of the handler's is answered by a callback from within.
 *
 * Role: shell, private to the server. Thread: the loop's.
 */
#ifndef NODE_HTTPD_CONN_INTERNAL_H
#define NODE_HTTPD_CONN_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/buf.h"
#include "node/base/deadline.h"
#include "node/base/list.h"
#include "node/base/sock.h"
#include "node/http/http_chunk.h"
#include "node/http/http_head.h"
#include "node/http/httpd.h"

/* Memory that an empty buffer keeps. */
#define HTTPD_KEEP_BYTES ((size_t)64 * 1024)

enum httpd_state {
    HTTPD_IDLE,   /* nothing of the next request was looked at */
    HTTPD_HEAD,   /* its head is not whole */
    HTTPD_BODY,   /* its head is known, its body is not whole */
    HTTPD_BUSY,   /* the handler has it */
    HTTPD_FLUSH,  /* answered; the kernel has not taken everything */
    HTTPD_LINGER, /* said goodbye (FIN); throws away what still comes, since
                     closing on unread bytes would reset the answer away */
    HTTPD_CLOSED, /* sock_close() was called */
};

enum httpd_deadline {
    HTTPD_DEADLINE_IDLE,
    HTTPD_DEADLINE_WRITE,
    HTTPD_DEADLINE_LINGER,
    HTTPD_DEADLINES,
};

struct httpd_request {
    struct httpd_conn *conn;
    struct http_head head; /* into conn->in */
    struct slice body;     /* into conn->in */
    void *user;
    bool open;      /* the handler has it */
    bool begun;     /* a head was sent */
    bool streaming; /* by httpd_begin() */
    bool chunked;
    bool bodiless; /* HEAD, 204, 304: the body is not sent */
};

struct httpd_conn {
    struct sock sock;
    struct httpd *httpd;
    struct list_link all;     /* httpd->connections, or httpd->spare */
    struct list_link ready;   /* httpd->ready, or none */
    struct deadline deadline; /* in one of httpd->deadlines, or none */
    enum httpd_state state;
    bool reading;
    bool pumping;     /* httpd_conn_pump() is below us on the stack */
    bool input_over;  /* the client ended its side */
    bool close_after; /* the answer under way is the last */
    bool linger;      /* ... and the client may be sending still */
    bool refused;     /* over connections_max */

    /* One request from its first byte, and any bytes that followed it. */
    struct buf in;
    const char *parsed; /* in.ptr when request.head was filled */
    size_t body_end;    /* decoded body ends here; it starts behind the head */
    size_t next_at;     /* the next request starts here */
    size_t armed_at;    /* in.len when the body's deadline was set */
    struct http_chunk chunk;
    uint64_t discarded; /* bytes, while lingering */

    struct buf out;      /* bytes that the kernel did not take at once */
    size_t out_at;       /* how many of them were sent since */
    uint64_t queued;     /* bytes that ever went to `out` */
    uint64_t taken_then; /* ... and had left when the deadline was set */

    struct httpd_request request;
};

struct httpd {
    uv_loop_t *loop;
    struct httpd_limits limits;
    struct http_limits head_limits;
    struct httpd_handler handler;
    struct sock_tls_context *tls; /* owned; NULL: in clear */
    struct httpd_stats stats;
    uint16_t port;
    bool stopped;
    bool freed;
    uint32_t handles;     /* not yet closed, connections' included */
    uint32_t refused;     /* connections that only hear 503 */
    uint32_t spare_count; /* connections kept for their buffers */
    struct list_link connections;
    struct list_link spare;
    struct list_link ready; /* have input to look at, from the loop */
    struct deadline_list deadlines[HTTPD_DEADLINES];
    uint64_t resume_us;    /* accept again; UINT64_MAX: not paused */
    uint64_t timer_due_us; /* UINT64_MAX: not running */
    struct sock listener;
    uv_timer_t timer;
    uv_idle_t idle; /* runs while `ready` has members */
};

/* httpd.c */

/* Takes a closed connection back. */
void httpd_release(struct httpd_conn *conn);

/* Tells the handler if it has a request of this connection. */
void httpd_gone(struct httpd_conn *conn);

/* Has the connection's input looked at from the loop, soon. */
void httpd_wake(struct httpd_conn *conn);

/* Accepts again after a pause. */
void httpd_resume(struct httpd *httpd);

/* httpd_timer.c */

/* Prepares the timer and the lists of deadlines; before the first connection.
 */
void httpd_timer_init(struct httpd *httpd);

/* Replaces the connection's deadline by one from now. */
void httpd_timer_arm(struct httpd_conn *conn, enum httpd_deadline which);

/* Calls httpd_resume() in a while. */
void httpd_timer_pause(struct httpd *httpd, uint64_t pause_us);

/* Lets the loop end if nothing else keeps it running. */
void httpd_timer_stop(struct httpd *httpd);

/* httpd_conn.c */

/* Starts a connection on fd, which is closed when this fails. 0, or -errno
 * and the connection was never open. */
int httpd_conn_open(struct httpd_conn *conn, int fd) MUST_CHECK;

/* Waits for the events that the state needs, from the loop's next turn on. */
void httpd_conn_want(struct httpd_conn *conn);

/* Looks at the input there is, as far as requests can be handed over. */
void httpd_conn_pump(struct httpd_conn *conn);

/* The answer under way is complete. */
void httpd_conn_answered(struct httpd_conn *conn);

/* ... and all of it is with the kernel. */
void httpd_conn_flushed(struct httpd_conn *conn);

/* The connection's deadline has passed; it is on no list. */
void httpd_conn_expired(struct httpd_conn *conn);

/* Aborts the connection; does nothing if it is closed. */
void httpd_conn_close(struct httpd_conn *conn);

/* httpd_answer.c */

/* Sends an answer of the server's own, then closes. */
void httpd_answer_refuse(struct httpd_conn *conn, unsigned status,
                         const char *message);

/* httpd_out.c */

/* Gives the bytes to the kernel as far as it takes them now, and keeps a copy
 * of the rest. Aborts the connection when that fails. */
void httpd_out_write(struct httpd_conn *conn, const struct iovec *pieces,
                     unsigned count);

/* The kernel takes bytes again. */
void httpd_out_ready(struct httpd_conn *conn);

/* Bytes that the kernel has not taken. */
static inline size_t
httpd_out_unsent(const struct httpd_conn *conn)
{
    return conn->out.len - conn->out_at;
}

/* Gives the client another write_timeout_ms to take something. */
void httpd_out_watch(struct httpd_conn *conn);

/* True when it took something since. */
bool httpd_out_moved(const struct httpd_conn *conn);

/* Gives an empty buffer's memory back when it is large. */
void httpd_out_trim(struct buf *buf);

#endif
