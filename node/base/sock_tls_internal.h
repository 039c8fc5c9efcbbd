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

#endif
