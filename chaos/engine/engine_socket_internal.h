/*
 * A ZeroMQ socket on a libuv loop, for the publisher's two sides.
 *
 * A socket's descriptor tells of changes only: whoever is called must empty
 * what engine_socket_events() says is there, and ask it again after each use.
 *
 * Role: shell. Owns: the socket and its poll. Thread: the loop's.
 * Limits: ENGINE_URL_MAX. Errors: below zero -errno.
 */
#ifndef CHAOS_ENGINE_SOCKET_INTERNAL_H
#define CHAOS_ENGINE_SOCKET_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define ENGINE_URL_MAX   256
#define ENGINE_SEQ_BYTES 8

/* All zero is a socket that is off. */
struct engine_socket {
    void *zmq; /* NULL: off */
    uv_poll_t poll;
    void (*wake)(void *context); /* something may have changed */
    void *context;
    char url[ENGINE_URL_MAX]; /* where it is bound; empty: off */
};

/* Opens and binds a socket of a ZeroMQ context. type: ZMQ_PUB and so on. hwm:
 * messages that may wait for one peer. 0, or -errno; then too
 * engine_socket_close() must follow. */
int engine_socket_open(struct engine_socket *s, void *zmq_context, int type,
                       int hwm, const char *endpoint) MUST_CHECK;

/* Calls wake(context) now and at each change; the socket may not move any
 * more. One that is off stays silent. 0, or -errno. */
int engine_socket_watch(struct engine_socket *s, uv_loop_t *loop,
                        void (*wake)(void *), void *context) MUST_CHECK;

/* What happened on the socket, as ZMQ_POLLIN and so on. Also lets the library
 * do what it has to: new peers count only after this. */
int engine_socket_events(struct engine_socket *s);

/* Never blocks: what a peer has no room for is dropped, with all of its
 * frames. */
void engine_socket_send(struct engine_socket *s, const struct slice *frames,
                        uint32_t count);

/* The poll on the loop is closing. */
void engine_socket_close(struct engine_socket *s);

/*
 * Makes an endpoint of a port, "5557", or of a whole one, "tcp://[::]:5557":
 * the rank is added to the port. any: what port 0 stands for; 0 itself for the
 * one that the kernel gives, whatever the rank. host: an IP address, put before
 * a port alone. False: it has no port, or is too long.
 */
bool engine_socket_endpoint(const char *text, const char *host, uint32_t any,
                            uint32_t rank, char out[ENGINE_URL_MAX]) MUST_CHECK;

/* Whether that leaves the port to chance; NULL does not. */
bool engine_socket_any_port(const char *text);

/* -errno of the library's last failure; it has numbers of its own, too. */
int engine_socket_fault(void);

/* Sequence numbers on the wire: 8 bytes, big end first. */
void engine_seq_encode(uint64_t seq, unsigned char bytes[ENGINE_SEQ_BYTES]);
uint64_t engine_seq_decode(const unsigned char bytes[ENGINE_SEQ_BYTES]);

#endif
