/* TLS on an accepted connection, by OpenSSL. */
#include "node/base/sock_tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "node/base/sock.h"

#define RECORD_BYTES ((size_t)16 << 10) /* plain bytes of one, at most */

struct sock_tls_context {
    SSL_CTX *ssl;
    int64_t expiry_s;
};

struct sock_tls {
    SSL *ssl;
    int wanted;       /* SOCK_* of the owner */
    bool read_writes; /* reading waits until it can be written */
    bool broken;      /* nothing may be said any more */
};

/* Certificates */

static int
choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                const unsigned char *in, unsigned in_len, void *unused)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen;

    (void)ssl, (void)unused;
    int outcome = SSL_select_next_proto(&chosen, out_len, ours,
                                        sizeof(ours) - 1, in, in_len);
    *out = chosen;
    return outcome == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK
                                             : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* A key with a passphrase is refused: there is nobody to ask. */
static int
no_password(char *out, int size, int writing, void *unused)
{
    (void)out, (void)size, (void)writing, (void)unused;
    return 0;
}

static const char *
load(SSL_CTX *ssl, const struct sock_tls_files *files)
{
    if (SSL_CTX_use_certificate_chain_file(ssl, files->cert) != 1) {
        return "the certificate cannot be read";
    }
    if (SSL_CTX_use_PrivateKey_file(ssl, files->key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ssl) != 1) {
        return ERR_GET_REASON(ERR_peek_last_error()) ==
                       X509_R_KEY_VALUES_MISMATCH
                   ? "the key is not the certificate's"
                   : "the key cannot be read";
    }
    if (files->client_ca[0] == '\0') {
        return NULL;
    }
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(files->client_ca);
    if (names == NULL || SSL_CTX_load_verify_file(ssl, files->client_ca) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return "the clients' CA cannot be read";
    }
    SSL_CTX_set_client_CA_list(ssl, names);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                       NULL);
    return NULL;
}

static const char *
configure(SSL_CTX *ssl, const struct sock_tls_files *files)
{
    SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                       SSL_OP_NO_COMPRESSION |
                                       SSL_OP_CIPHER_SERVER_PREFERENCE);
    /* A request says itself how long it is: an end without TLS's own, as many
     * clients leave, cuts nothing off unseen. */
    (void)SSL_CTX_set_options(ssl, SSL_OP_IGNORE_UNEXPECTED_EOF);
    (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(ssl, no_password);
    SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, NULL);
    if (SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_num_tickets(ssl, 0) != 1) {
        return "TLS 1.2 is not available";
    }
    return load(ssl, files);
}

static int64_t
expiry_of(const SSL_CTX *ssl)
{
    const X509 *cert = SSL_CTX_get0_certificate(ssl);
    struct tm when;

    if (cert == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(cert), &when) != 1) {
        return INT64_MAX;
    }
    return timegm(&when);
}

int
sock_tls_context_new(struct sock_tls_context **out,
                     const struct sock_tls_files *files, const char **why)
{
    struct sock_tls_context *context = calloc(1, sizeof(*context));

    *out = NULL;
    if (context == NULL) {
        return -ENOMEM;
    }
    context->ssl = SSL_CTX_new(TLS_server_method());
    if (context->ssl == NULL) {
        sock_tls_context_free(context);
        return -ENOMEM;
    }
    ERR_clear_error();
    *why = configure(context->ssl, files);
    ERR_clear_error();
    if (*why != NULL) {
        sock_tls_context_free(context);
        return SOCK_TLS_E_FILES;
    }
    context->expiry_s = expiry_of(context->ssl);
    *out = context;
    return 0;
}

void
sock_tls_context_free(struct sock_tls_context *context)
{
    if (context != NULL) {
        SSL_CTX_free(context->ssl);
        free(context);
    }
}

int64_t
sock_tls_expiry(const struct sock_tls_context *context)
{
    return context->expiry_s;
}

/* Sessions */

struct sock_tls *
sock_tls_accept(const struct sock_tls_context *context, int fd)
{
    struct sock_tls *tls = calloc(1, sizeof(*tls));

    CHECK(fd >= 0);
    if (tls == NULL) {
        return NULL;
    }
    tls->ssl = SSL_new(context->ssl);
    if (tls->ssl == NULL || SSL_set_fd(tls->ssl, fd) != 1) {
        sock_tls_free(tls);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_accept_state(tls->ssl);
    return tls;
}

void
sock_tls_end(struct sock_tls *tls)
{
    /* Within a handshake or after a failure OpenSSL allows none. */
    if (!tls->broken && SSL_is_init_finished(tls->ssl) == 1) {
        ERR_clear_error();
        (void)SSL_shutdown(tls->ssl);
        ERR_clear_error();
    }
}

void
sock_tls_free(struct sock_tls *tls)
{
    if (tls != NULL) {
        SSL_free(tls->ssl);
        free(tls);
    }
}

/* Why a call did not succeed, as -errno; 0: at an orderly end. */
static int
fault_of(struct sock_tls *tls, int rc)
{
    int number = errno;
    int error = SSL_get_error(tls->ssl, rc);

    ERR_clear_error();
    tls->read_writes = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        return -EAGAIN;
    }
    if (error == SSL_ERROR_ZERO_RETURN) {
        return 0;
    }
    tls->broken = true;
    if (error == SSL_ERROR_SYSCALL) {
        return number > 0 ? -number : -ECONNRESET;
    }
    return -EPROTO;
}

ssize_t
sock_tls_recv(struct sock_tls *tls, void *at, size_t size)
{
    CHECK(size != 0);
    if (tls->broken) {
        return -EPROTO;
    }
    ERR_clear_error();
    errno = 0;
    int rc = SSL_read(tls->ssl, at, (int)(size < INT32_MAX ? size : INT32_MAX));
    if (rc > 0) {
        tls->read_writes = false;
        return rc;
    }
    return fault_of(tls, rc);
}

/* The next plain bytes of the parts from byte `from` on, one record at most, in
 * one run: in their part, or copied to room. */
static struct iovec
next_record(const struct iovec *parts, unsigned count, size_t from, char *room)
{
    struct iovec run = {.iov_base = room, .iov_len = 0};

    for (unsigned i = 0; i < count && run.iov_len < RECORD_BYTES; i++) {
        size_t skip = from < parts[i].iov_len ? from : parts[i].iov_len;
        size_t len = parts[i].iov_len - skip;
        char *at = (char *)parts[i].iov_base + skip;
        from -= skip;
        if (len > RECORD_BYTES - run.iov_len) {
            len = RECORD_BYTES - run.iov_len;
        }
        if (len == RECORD_BYTES) {
            return (struct iovec){.iov_base = at, .iov_len = len};
        }
        if (len != 0) {
            memcpy(room + run.iov_len, at, len);
            run.iov_len += len;
        }
    }
    return run;
}

ssize_t
sock_tls_send(struct sock_tls *tls, const struct iovec *parts, unsigned count)
{
    char room[RECORD_BYTES];
    size_t sent = 0;

    if (tls->broken) {
        return -EPROTO;
    }
    for (;;) {
        struct iovec run = next_record(parts, count, sent, room);
        if (run.iov_len == 0) {
            return (ssize_t)sent;
        }
        bool read_writes = tls->read_writes;
        ERR_clear_error();
        errno = 0;
        int rc = SSL_write(tls->ssl, run.iov_base, (int)run.iov_len);
        if (rc <= 0) {
            int fault = fault_of(tls, rc);
            bool full = fault == -EAGAIN && tls->read_writes;
            tls->read_writes = read_writes;
            /* Writing waits for reading in a handshake alone, and nobody is
             * answered before he has asked. */
            if (full) {
                return (ssize_t)sent;
            }
            return fault == -EAGAIN || fault == 0 ? -EPROTO : fault;
        }
        sent += (size_t)rc;
    }
}

/* Readiness */

bool
sock_tls_holds(const struct sock_tls *tls)
{
    return SSL_pending(tls->ssl) > 0;
}

int
sock_tls_want(struct sock_tls *tls, int events)
{
    tls->wanted = events;
    if ((events & SOCK_READ) != 0 &&
        (tls->read_writes || sock_tls_holds(tls))) {
        return events | SOCK_WRITE;
    }
    return events;
}

int
sock_tls_came(const struct sock_tls *tls, int events)
{
    if ((events & SOCK_WRITE) != 0 &&
        (tls->read_writes || sock_tls_holds(tls))) {
        events |= SOCK_READ;
    }
    return events & tls->wanted;
}

int
sock_tls_wanted(const struct sock_tls *tls)
{
    return tls->wanted;
}
