/* TLS on a connection, by OpenSSL. */
#include "node/base/sock_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "node/base/sock.h"
#include "node/base/sock_tls_internal.h"

#define RECORD_BYTES ((size_t)16 << 10) /* plain bytes of one, at most */

struct sock_tls {
    SSL *ssl;
    int wanted;                 /* SOCK_* of the owner */
    bool read_writes;           /* reading waits until it can be written */
    bool broken;                /* nothing may be said any more ... */
    bool hears;                 /* ... but what came before can be read */
    const char *why;            /* static text; "" unless TLS itself failed */
    struct sock_tls_kept *kept; /* where its sessions go, or NULL */
};

/* Sessions */

static struct sock_tls *
make(const struct sock_tls_context *context, int fd)
{
    struct sock_tls *tls = calloc(1, sizeof(*tls));

    CHECK(fd >= 0);
    if (tls == NULL) {
        return NULL;
    }
    tls->why = "";
    tls->ssl = SSL_new(context->ssl);
    if (tls->ssl == NULL || SSL_set_fd(tls->ssl, fd) != 1) {
        sock_tls_free(tls);
        ERR_clear_error();
        return NULL;
    }
    return tls;
}

struct sock_tls *
sock_tls_accept(const struct sock_tls_context *context, int fd)
{
    struct sock_tls *tls = make(context, fd);

    if (tls != NULL) {
        SSL_set_accept_state(tls->ssl);
    }
    return tls;
}

void
sock_tls_speak_h2(struct sock_tls *tls)
{
    static char h2[] = "h2"; /* any pointer: choose_protocol() looks for one */

    (void)SSL_set_app_data(tls->ssl, h2);
}

/* Its certificate must be for this host; the name is said in the first message
 * (SNI), where addresses have no place (RFC 6066). */
static bool
expect(SSL *ssl, const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    bool address = inet_pton(AF_INET, host, bytes) == 1 ||
                   inet_pton(AF_INET6, host, bytes) == 1;

    if (address) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    }
    return SSL_set1_host(ssl, host) == 1 &&
           SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME,
                    TLSEXT_NAMETYPE_host_name,
                    (void *)(uintptr_t)host) == 1; /* it copies the name */
}

void
sock_tls_kept_drop(struct sock_tls_kept *kept)
{
    SSL_SESSION_free(kept->session);
    SSL_CTX_free(kept->context);
    *kept = (struct sock_tls_kept){.session = NULL};
}

/* One of 1.2 would be resumed without fresh keys. */
int
sock_tls_keep(SSL *ssl, SSL_SESSION *session)
{
    struct sock_tls *tls = SSL_get_app_data(ssl);
    SSL_CTX *context = SSL_get_SSL_CTX(ssl);

    if (tls == NULL || tls->kept == NULL || SSL_version(ssl) < TLS1_3_VERSION ||
        SSL_CTX_up_ref(context) != 1) {
        return 0;
    }
    sock_tls_kept_drop(tls->kept);
    *tls->kept = (struct sock_tls_kept){.session = session, .context = context};
    return 1;
}

/* What other files vouched for, or long ago, is looked at anew. */
static void
resume(struct sock_tls *tls, const struct sock_tls_context *context)
{
    struct sock_tls_kept *kept = tls->kept;
    time_t now = time(NULL);

    if (kept->session == NULL) {
        return;
    }
    long since = SSL_SESSION_get_time(kept->session);
    if (kept->context != context->ssl || now < since ||
        now - since >= SOCK_TLS_RESUME_S ||
        SSL_set_session(tls->ssl, kept->session) != 1) {
        sock_tls_kept_drop(kept);
    }
}

struct sock_tls *
sock_tls_connect(const struct sock_tls_context *context, int fd,
                 const char *host, struct sock_tls_kept *kept)
{
    struct sock_tls *tls = make(context, fd);

    if (tls == NULL) {
        return NULL;
    }
    SSL_set_connect_state(tls->ssl);
    tls->kept = kept;
    if (kept != NULL) {
        (void)SSL_set_app_data(tls->ssl, tls);
        resume(tls, context);
    }
    if (!expect(tls->ssl, host)) {
        sock_tls_free(tls);
        ERR_clear_error();
        return NULL;
    }
    return tls;
}

bool
sock_tls_is_resumed(const struct sock_tls *tls)
{
    return SSL_session_reused(tls->ssl) == 1;
}

void
sock_tls_end(struct sock_tls *tls)
{
    tls->kept = NULL;
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

/* What is wrong with the other side's certificate. */
static const char *
certificate_fault(long outcome)
{
    switch (outcome) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return "its certificate is for another name";
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "its certificate has ended";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "its certificate is not valid yet";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        return "its certificate is by no authority that is trusted here";
    default:
        return X509_verify_cert_error_string(outcome);
    }
}

/* Why TLS failed, by the library's first word of it. */
static const char *
fault_text(const SSL *ssl, unsigned long error)
{
    const char *text = ERR_reason_error_string(error);

    if (ERR_GET_LIB(error) != ERR_LIB_SSL) {
        return "TLS failed";
    }
    switch (ERR_GET_REASON(error)) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
        return certificate_fault(SSL_get_verify_result(ssl));
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
        return "it speaks no TLS";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return "it wants a certificate of this node";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
        return "it does not trust this node's certificate";
    default:
        return text != NULL ? text : "TLS failed";
    }
}

/* Why a call did not succeed, as -errno; 0: at an orderly end. */
static int
fault_of(struct sock_tls *tls, int rc)
{
    int number = errno;
    int error = SSL_get_error(tls->ssl, rc);
    unsigned long first = ERR_peek_error();

    ERR_clear_error();
    tls->read_writes = error == SSL_ERROR_WANT_WRITE;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        return -EAGAIN;
    }
    if (error == SSL_ERROR_ZERO_RETURN) {
        return 0;
    }
    tls->broken = true;
    tls->hears = false;
    if (error == SSL_ERROR_SYSCALL) {
        return number > 0 ? -number : -ECONNRESET;
    }
    tls->why = fault_text(tls->ssl, first);
    return -EPROTO;
}

int
sock_tls_shake(struct sock_tls *tls)
{
    if (tls->broken) {
        return -EPROTO;
    }
    ERR_clear_error();
    errno = 0;
    int rc = SSL_do_handshake(tls->ssl);
    if (rc == 1) {
        tls->read_writes = false;
        return 0;
    }
    int fault = fault_of(tls, rc);
    return fault != 0 ? fault : -ECONNRESET;
}

const char *
sock_tls_why(const struct sock_tls *tls)
{
    return tls->why;
}

uint64_t
sock_tls_written(const struct sock_tls *tls)
{
    return BIO_number_written(SSL_get_wbio(tls->ssl));
}

ssize_t
sock_tls_recv(struct sock_tls *tls, void *at, size_t size)
{
    CHECK(size != 0);
    if (tls->broken && !tls->hears) {
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
        if (run.iov_len == 0 || sent > SOCK_TURN_BYTES - RECORD_BYTES) {
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
            /* The peer may have said why it takes no more. */
            tls->hears = tls->broken && fault != -EPROTO;
            return fault == -EAGAIN || fault == 0 ? -EPROTO : fault;
        }
        sent += (size_t)rc;
    }
}

/* Readiness */

bool
sock_tls_is_quiet(const struct sock_tls *tls)
{
    bool shakes = SSL_is_init_finished(tls->ssl) != 1 &&
                  BIO_number_read(SSL_get_rbio(tls->ssl)) != 0;

    return !tls->broken && !shakes && SSL_has_pending(tls->ssl) == 0;
}

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
