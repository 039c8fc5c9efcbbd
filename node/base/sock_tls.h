/*
 * TLS on a connection, for sock.c: OpenSSL reads and writes the descriptor
 * itself, so that readiness keeps its meaning. A server's handshake is part of
 * its first reads; a client's comes first, so that a server whose certificate
 * is wrong gets no byte of a request.
 *
 * TLS 1.2 or later. ALPN chooses http/1.1 (or h2, where that alone is spoken), and
 * refuses who offers other
 * protocols alone (RFC 7301). Clients of 1.3 may resume their sessions within
 * the hour, on any lane, with fresh keys, until the files are read again; so
 * this side does where its owner keeps them. None is renegotiated, and 1.3's
 * early data, which can be replayed, is not taken. A server must show a
 * certificate for its host, by a known authority; in a session that is resumed
 * it did, at most an hour ago.
 *
 * What sock.c must know of TLS beyond bytes: OpenSSL may hold bytes that it has
 * decrypted already, for which the descriptor will never become readable, and
 * reading may have to wait until it can be written. Both are waits for
 * writability here, which comes at once or when it is due.
 *
 * Role: shell. Owns: sessions; a context lives as long as its sessions. Thread:
 * a session belongs to one, contexts to any. Limits: one record each way; idle
 * sessions keep no buffers. Errors: -errno; -EPROTO when TLS itself failed.
 */
#ifndef NODE_SOCK_TLS_H
#define NODE_SOCK_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "index/base/check.h"

/* Read or sent at one go: the others of a loop wait for no large body. */
#define SOCK_TURN_BYTES ((size_t)128 << 10)

struct sock_tls;
struct sock_tls_context;

/* PEM files; borrowed for the call. */
struct sock_tls_files {
    const char *cert; /* and those of the authorities between */
    const char *key;  /* its own */
    const char *ca;   /* whose certificates are good; "": for a server, clients
                         need none; for a client, those that the system trusts */
};

enum {
    SOCK_TLS_E_FILES = 1, /* *why says what is wrong with them, static text */
};

/* Reads the files. 0 and *out, SOCK_TLS_E_FILES, or -ENOMEM. */
int sock_tls_context_new(struct sock_tls_context **out,
                         const struct sock_tls_files *files, const char **why)
    MUST_CHECK;

/* The same for the side that connects; cert and key may be "". */
int sock_tls_context_new_client(struct sock_tls_context **out,
                                const struct sock_tls_files *files,
                                const char **why) MUST_CHECK;

/* The same once more, for another owner. NULL: no memory. */
struct sock_tls_context *
sock_tls_context_share(const struct sock_tls_context *context) MUST_CHECK;

/* NULL is fine; sessions go on. */
void sock_tls_context_free(struct sock_tls_context *context);

/* When its certificate ends, in seconds since 1970; INT64_MAX: it has none. */
int64_t sock_tls_expiry(const struct sock_tls_context *context);

/* The server's side of a connection; fd stays the caller's. NULL: no memory. */
struct sock_tls *sock_tls_accept(const struct sock_tls_context *context, int fd)
    MUST_CHECK;

/* Its ALPN chooses h2, not http/1.1. Before anything was read. */
void sock_tls_speak_h2(struct sock_tls *tls);

/* A server's last session, which the next connection to it may resume. All zero:
 * none. It belongs to one thread. */
struct sock_tls_kept {
    void *session; /* the library's own */
    void *context; /* that it was made in */
};

/* None is kept any more. Repeating it is harmless. */
void sock_tls_kept_drop(struct sock_tls_kept *kept);

/* The client's side, to a server that must be this host: a name or an address.
 * kept: of that server, or NULL; it outlives sock_tls_end(). sock_tls_shake()
 * comes before all else. */
struct sock_tls *sock_tls_connect(const struct sock_tls_context *context,
                                  int fd, const char *host,
                                  struct sock_tls_kept *kept) MUST_CHECK;

/* Whether it goes on with a session that was kept. */
bool sock_tls_is_resumed(const struct sock_tls *tls);

/* Goes on with the handshake. 0: it is done; -EAGAIN: the descriptor is not
 * ready for it; -EPROTO or another -errno. */
int sock_tls_shake(struct sock_tls *tls) MUST_CHECK;

/* Why it failed with -EPROTO: static text, "its certificate ...". "" otherwise.
 */
const char *sock_tls_why(const struct sock_tls *tls);

/* Bytes that went to the descriptor. */
uint64_t sock_tls_written(const struct sock_tls *tls);

/* Whether it has not read on from what its owner got, and is in no handshake of
 * which a byte came. */
bool sock_tls_is_quiet(const struct sock_tls *tls);

/* Says that nothing more is sent, where that is possible. */
void sock_tls_end(struct sock_tls *tls);

/* NULL is fine. */
void sock_tls_free(struct sock_tls *tls);

/* As sock_recv(). */
ssize_t sock_tls_recv(struct sock_tls *tls, void *at, size_t size);

/* As sock_send(); what was not taken must be sent next, with all that follows
 * it. */
ssize_t sock_tls_send(struct sock_tls *tls, const struct iovec *parts,
                      unsigned count);

/* The owner waits for these events (SOCK_*): those to wait for at the
 * descriptor. */
int sock_tls_want(struct sock_tls *tls, int events);

/* These came at the descriptor: those to tell the owner, or 0. */
int sock_tls_came(const struct sock_tls *tls, int events);

/* Whether it holds bytes that sock_tls_recv() returns at once. */
bool sock_tls_holds(const struct sock_tls *tls);

/* What the owner waits for. */
int sock_tls_wanted(const struct sock_tls *tls);

#endif
