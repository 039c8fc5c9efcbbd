/*
 * TLS without sockets: certificates and keys, and sessions that turn plain
 * bytes into bytes of TLS and back. Only link_tls.c and link_proof.c use
 * OpenSSL.
 *
 * TLS 1.2 or later, mutual: each side shows a certificate by the CA with the
 * DNS name `server_name`, and checks the other's before it takes any plain
 * bytes. The files are read again when they change; a session keeps the
 * certificate that it began with.
 *
 * Role: shell (files, wall time for expiry). Owns: what it makes. Thread: the
 * loop's. Limits: OpenSSL's records. Errors: at each function.
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

/* Reads the files. 0 and *out, which the caller frees with tls_files_free(); or
 * -errno or MESH_LINK_E_CONFIG, and *why, static text. */
int tls_files_new(struct tls_files **out, const struct mesh_link_tls *paths,
                  const char **why) MUST_CHECK;

/* files may be NULL. Sessions may outlive it. */
void tls_files_free(struct tls_files *files);

enum tls_reload {
    TLS_SAME,   /* no file has changed */
    TLS_LOADED, /* new sessions use the changed files */
    TLS_BAD,    /* the changed files cannot be used: new sessions use what
                   was loaded before */
};

/* Looks whether a file has changed, and reports each change once. For TLS_BAD
 * *why says what is wrong, static text. */
enum tls_reload tls_files_look(struct tls_files *files, const char **why)
    MUST_CHECK;

/* Why nodes with the same CA and name refuse our certificate, static text; NULL:
 * they do not. */
const char *tls_files_doubt(const struct tls_files *files);

/* When our certificate ends or ended, in seconds since 1970. */
int64_t tls_files_expiry(const struct tls_files *files);

/* The session of one connection; the caller frees it with tls_free(). files
 * NULL: no TLS, bytes pass unchanged. Returns NULL: out of memory. */
struct tls *tls_new(const struct tls_files *files, bool server) MUST_CHECK;

/* tls may be NULL. */
void tls_free(struct tls *tls);

/* Takes a copy of bytes that the network brought. False: out of memory. */
bool tls_feed(struct tls *tls, const char *bytes, size_t len) MUST_CHECK;

/* 1: the handshake is done; 0: it needs more bytes; below zero: it failed, and
 * tls_why() says why. */
int tls_handshake(struct tls *tls) MUST_CHECK;

/* Reads at most size plain bytes and returns how many; 0: none for now; below
 * zero: the session is over, and tls_why() says why. */
int tls_read(struct tls *tls, void *bytes, size_t size) MUST_CHECK;

/* Takes plain bytes to send, len > 0. False: the session is over, and tls_why()
 * says why. */
bool tls_write(struct tls *tls, const void *bytes, size_t len) MUST_CHECK;

/* Moves out at most size bytes for the network; returns how many, or 0. */
size_t tls_out(struct tls *tls, void *bytes, size_t size);

/* What went wrong last: static text, ours or OpenSSL's. */
const char *tls_why(const struct tls *tls);

#endif
