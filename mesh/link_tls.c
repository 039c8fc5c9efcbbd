/* Certificates, keys and sessions of TLS, by OpenSSL. */
#include "mesh/link_tls_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    FILE_CA,
    FILE_CERT,
    FILE_KEY,
    FILES
};

struct tls_files {
    char *paths[FILES];
    char *name; /* the DNS name in each node's certificate */
    struct timespec changed[FILES];
    off_t sizes[FILES];
    SSL_CTX *context;
    int64_t expiry_s;
};

struct tls {
    SSL *ssl; /* NULL: no TLS, bytes pass unchanged */
    BIO *in;  /* ssl owns both, if there is one */
    BIO *out;
    const char *why;
};

/* Files */

/* When a file, its mode or its owner last changed, and its size. A missing file
 * has time 0 and size -1. */
static void
look_at(struct tls_files *files, int at, struct timespec *changed, off_t *size)
{
    struct stat is = {.st_size = -1};

    CHECK(at >= 0 && at < FILES);
    if (stat(files->paths[at], &is) != 0) {
        is = (struct stat){.st_size = -1};
    }
    *changed = is.st_ctim;
    *size = is.st_size;
}

static int
readable(const struct tls_files *files, const char **why)
{
    static const char *const whys[FILES] = {
        "the CA's file cannot be read",
        "the certificate's file cannot be read",
        "the key's file cannot be read",
    };

    for (int i = 0; i < FILES; i++) {
        int fd = open(files->paths[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            *why = whys[i];
            return -errno;
        }
        (void)close(fd);
    }
    return 0;
}

/* Configures the context from the files. NULL, or what is wrong. */
static const char *
fill(const struct tls_files *files, SSL_CTX *context)
{
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_options(context, SSL_OP_NO_TICKET |
                                           SSL_OP_NO_RENEGOTIATION |
                                           SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(context,
                       SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);

    X509_VERIFY_PARAM *param = SSL_CTX_get0_param(context);
    X509_VERIFY_PARAM_set_hostflags(param,
                                    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    /* The trusted authority may itself be certified by another one. */
    (void)X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN);
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_num_tickets(context, 0) != 1 ||
        X509_VERIFY_PARAM_set1_host(param, files->name, 0) != 1) {
        return "TLS is not available";
    }
    if (SSL_CTX_load_verify_file(context, files->paths[FILE_CA]) != 1) {
        return "the CA's file has no certificate that can be read";
    }
    if (SSL_CTX_use_certificate_chain_file(context, files->paths[FILE_CERT]) ==
            1 &&
        SSL_CTX_use_PrivateKey_file(context, files->paths[FILE_KEY],
                                    SSL_FILETYPE_PEM) == 1) {
        return NULL;
    }
    return ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH
               ? "the key is not the certificate's"
               : "the certificate or its key cannot be read";
}

/* The end of the certificate, in seconds since 1970. */
static int64_t
expiry_of(SSL_CTX *context)
{
    const X509 *cert = SSL_CTX_get0_certificate(context);
    struct tm when;

    if (cert == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(cert), &when) != 1) {
        return INT64_MAX;
    }
    return timegm(&when);
}

/* Whether other nodes would take the certificate for a node's. */
static bool
has_name(const struct tls_files *files, SSL_CTX *context)
{
    X509 *cert = SSL_CTX_get0_certificate(context);

    return cert != NULL &&
           X509_check_host(cert, files->name, 0,
                           X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1;
}

/* Makes a context of the files' present content. Returns as tls_files_new(). */
static int
load(struct tls_files *files, const char **why)
{
    int rc;

    for (int i = 0; i < FILES; i++) {
        look_at(files, i, &files->changed[i], &files->sizes[i]);
    }
    if ((rc = readable(files, why)) != 0) {
        return rc;
    }
    SSL_CTX *context = SSL_CTX_new(TLS_method());
    if (context == NULL) {
        return -ENOMEM;
    }
    *why = fill(files, context);
    ERR_clear_error();
    if (*why == NULL && files->context != NULL && !has_name(files, context)) {
        *why = "the certificate lacks mesh.tls_server_name";
    }
    if (*why != NULL) {
        SSL_CTX_free(context);
        return MESH_LINK_E_CONFIG;
    }
    SSL_CTX_free(files->context);
    files->context = context;
    files->expiry_s = expiry_of(context);
    return 0;
}

int
tls_files_new(struct tls_files **out, const struct mesh_link_tls *paths,
              const char **why)
{
    struct tls_files *files = calloc(1, sizeof *files);
    int rc = -ENOMEM;

    if (files == NULL) {
        return rc;
    }
    files->paths[FILE_CA] = strdup(paths->ca);
    files->paths[FILE_CERT] = strdup(paths->cert);
    files->paths[FILE_KEY] = strdup(paths->key);
    files->name = strdup(paths->server_name);
    if (files->paths[FILE_CA] != NULL && files->paths[FILE_CERT] != NULL &&
        files->paths[FILE_KEY] != NULL && files->name != NULL) {
        rc = load(files, why);
    }
    if (rc != 0) {
        tls_files_free(files);
        return rc;
    }
    *out = files;
    return 0;
}

void
tls_files_free(struct tls_files *files)
{
    if (files == NULL) {
        return;
    }
    for (int i = 0; i < FILES; i++) {
        free(files->paths[i]);
    }
    free(files->name);
    SSL_CTX_free(files->context);
    free(files);
}

enum tls_reload
tls_files_look(struct tls_files *files, const char **why)
{
    bool same = true;

    for (int i = 0; i < FILES; i++) {
        struct timespec changed;
        off_t size;
        look_at(files, i, &changed, &size);
        same = same && size == files->sizes[i] &&
               changed.tv_sec == files->changed[i].tv_sec &&
               changed.tv_nsec == files->changed[i].tv_nsec;
    }
    if (same) {
        return TLS_SAME;
    }
    *why = "out of memory";
    return load(files, why) == 0 ? TLS_LOADED : TLS_BAD;
}

/* As whoever dials us (role "ssl_server"), or whom we dial, verifies it. */
static const char *
doubt_as(const struct tls_files *files, const char *role)
{
    X509_STORE_CTX *verify = X509_STORE_CTX_new();
    X509 *cert = SSL_CTX_get0_certificate(files->context);
    STACK_OF(X509) *chain = NULL;
    const char *why = NULL;

    CHECK(cert != NULL);
    (void)SSL_CTX_get0_chain_certs(files->context, &chain);
    if (verify != NULL &&
        X509_STORE_CTX_init(verify, SSL_CTX_get_cert_store(files->context),
                            cert, chain) == 1 &&
        X509_STORE_CTX_set_default(verify, role) == 1 &&
        X509_VERIFY_PARAM_set1(X509_STORE_CTX_get0_param(verify),
                               SSL_CTX_get0_param(files->context)) == 1 &&
        X509_verify_cert(verify) != 1) {
        why = X509_verify_cert_error_string(X509_STORE_CTX_get_error(verify));
    }
    X509_STORE_CTX_free(verify);
    ERR_clear_error();
    return why;
}

const char *
tls_files_doubt(const struct tls_files *files)
{
    const char *why = doubt_as(files, "ssl_server");

    return why != NULL ? why : doubt_as(files, "ssl_client");
}

int64_t
tls_files_expiry(const struct tls_files *files)
{
    return files->expiry_s;
}

/* Sessions */

struct tls *
tls_new(const struct tls_files *files, bool server)
{
    struct tls *tls = calloc(1, sizeof *tls);

    if (tls == NULL) {
        return NULL;
    }
    tls->ssl = files != NULL ? SSL_new(files->context) : NULL;
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    tls->why = "";
    if ((tls->ssl == NULL && files != NULL) || tls->in == NULL ||
        tls->out == NULL) {
        BIO_free(tls->in);
        BIO_free(tls->out);
        SSL_free(tls->ssl);
        free(tls);
        return NULL;
    }
    if (files == NULL) {
        return tls;
    }
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    if (server) {
        SSL_set_accept_state(tls->ssl);
    } else {
        SSL_set_connect_state(tls->ssl);
        (void)SSL_set_tlsext_host_name(tls->ssl, files->name);
    }
    return tls;
}

void
tls_free(struct tls *tls)
{
    if (tls != NULL) {
        if (tls->ssl == NULL) {
            BIO_free(tls->in);
            BIO_free(tls->out);
        }
        SSL_free(tls->ssl);
        free(tls);
    }
}

bool
tls_feed(struct tls *tls, const char *bytes, size_t len)
{
    CHECK(len <= INT_MAX);
    return len == 0 || BIO_write(tls->in, bytes, (int)len) == (int)len;
}

/* After a call that did not succeed. 0: it only waits for bytes; -1: it failed,
 * and tls->why says why. */
static int
judge(struct tls *tls, int rc)
{
    int error = SSL_get_error(tls->ssl, rc);

    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        return 0;
    }
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    long verified = SSL_get_verify_result(tls->ssl);
    if (error == SSL_ERROR_ZERO_RETURN) {
        tls->why = "it was closed";
    } else if (verified != X509_V_OK) {
        tls->why = X509_verify_cert_error_string(verified);
    } else {
        tls->why = reason != NULL ? reason : "it is no TLS";
    }
    ERR_clear_error();
    return -1;
}

int
tls_handshake(struct tls *tls)
{
    if (tls->ssl == NULL) {
        return 1;
    }
    ERR_clear_error();
    int rc = SSL_do_handshake(tls->ssl);

    return rc == 1 ? 1 : judge(tls, rc);
}

int
tls_read(struct tls *tls, void *bytes, size_t size)
{
    CHECK(size > 0 && size <= INT_MAX);
    if (tls->ssl == NULL) {
        int count = BIO_read(tls->in, bytes, (int)size);
        return count > 0 ? count : 0;
    }
    ERR_clear_error();
    int rc = SSL_read(tls->ssl, bytes, (int)size);

    return rc > 0 ? rc : judge(tls, rc);
}

bool
tls_write(struct tls *tls, const void *bytes, size_t len)
{
    const char *at = bytes;

    CHECK(len > 0 && len <= INT_MAX);
    if (tls->ssl == NULL) {
        return BIO_write(tls->out, bytes, (int)len) == (int)len;
    }
    while (len > 0) {
        ERR_clear_error();
        int rc = SSL_write(tls->ssl, at, (int)len);
        if (rc <= 0) {
            /* The BIO takes all bytes, so this is no wait for the network. */
            if (judge(tls, rc) == 0) {
                tls->why = "it began anew";
            }
            return false;
        }
        at += rc;
        len -= (size_t)rc;
    }
    return true;
}

size_t
tls_out(struct tls *tls, void *bytes, size_t size)
{
    CHECK(size <= INT_MAX);
    int rc = BIO_read(tls->out, bytes, (int)size);

    return rc > 0 ? (size_t)rc : 0;
}

const char *
tls_why(const struct tls *tls)
{
    return tls->why;
}
