/*
 * TLS as bytes: certificates and keys, and sessions that turn plain bytes into
 * TLS's and back. OpenSSL is behind this header and link_proof_internal.h.
 *
 * 1.2 or later, mutual: each side shows a certificate of the CA whose DNS name
 * is `server_name`, and looks at the other's before any byte goes further. The
 * files are read again when they change; sessions keep what they began with.
 *
 * Role: shell (files, wall time for expiry). Owns: what it makes. Thread: the
 * loop's. Limits: OpenSSL's records. Errors: as told.
 */
#ifndef MESH_LINK_TLS_INTERNAL_H
#define MESH_LINK_TLS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "mesh/link.h"

struct tls_files;
struct tls;

/* Reads the files: 0 and *out; -errno or MESH_LINK_E_CONFIG, and *why, static
 * text. The caller's to tls_files_free(). */
int tls_files_new(struct tls_files **out, const struct mesh_link_tls *paths,
                  const char **why) MUST_CHECK;

/* NULL is fine. Sessions may outlive it. */
void tls_files_free(struct tls_files *files);

enum tls_reload {
    TLS_SAME,   /* no file has changed */
    TLS_LOADED, /* new sessions have what is in them now */
    TLS_BAD,    /* they cannot be used; new sessions have what they had */
};

/* Looks whether a file has changed, and says a change once. *why as above, for
 * TLS_BAD. */
enum tls_reload tls_files_look(struct tls_files *files, const char **why)
    MUST_CHECK;

/* When our certificate ends, in seconds since 1970; it may be over. */
int64_t tls_files_expiry(const struct tls_files *files);

/* One connection: the caller's to tls_free(). files NULL: bytes pass as they
 * are. NULL: out of memory. */
struct tls *tls_new(const struct tls_files *files, bool server) MUST_CHECK;

/* NULL is fine. */
void tls_free(struct tls *tls);

/* Bytes that came: copied. False: out of memory. */
bool tls_feed(struct tls *tls, const char *bytes, size_t len) MUST_CHECK;

/* 1: the handshake is done; 0: it needs more bytes; below zero: it failed,
 * tls_why(). */
int tls_handshake(struct tls *tls) MUST_CHECK;

/* Plain bytes of what came, at most size: how many; 0: none for now; below
 * zero: it is over, tls_why(). */
int tls_read(struct tls *tls, void *bytes, size_t size) MUST_CHECK;

/* Plain bytes to send, len > 0. False: it is over, tls_why(). */
bool tls_write(struct tls *tls, const void *bytes, size_t len) MUST_CHECK;

/* Moves out up to size of the bytes that are to go over the network; 0: none. */
size_t tls_out(struct tls *tls, void *bytes, size_t size);

/* What went wrong last; static text, or OpenSSL's. */
const char *tls_why(const struct tls *tls);

#endif
