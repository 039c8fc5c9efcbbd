/*
 * What the files of TLS share. Private to them.
 *
 * Role: shell. Owns: a reference of the library's own. Thread: any. Limits:
 * none. Errors: none.
 */
#ifndef NODE_SOCK_TLS_INTERNAL_H
#define NODE_SOCK_TLS_INTERNAL_H

#include <openssl/ssl.h>

#include "node/base/sock_tls.h"

struct sock_tls_context {
    SSL_CTX *ssl;
    int64_t expiry_s;
};

#define SOCK_TLS_RESUME_S 3600 /* for which a session may be resumed */

/* For SSL_CTX_sess_set_new_cb(): keeps a server's session, if anybody wants
 * it. 1: it did. */
int sock_tls_keep(SSL *ssl, SSL_SESSION *session);

#endif
