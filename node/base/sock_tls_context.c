/* What connections of one kind share: certificates, authorities, rules. */
#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <time.h>

#include "node/base/sock_tls_internal.h"

static int
choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                const unsigned char *in, unsigned in_len, void *unused)
{
    static const unsigned char http1[] = "\x08http/1.1";
    static const unsigned char http2[] = "\x02h2";
    bool h2 = SSL_get_app_data(ssl) != NULL; /* sock_tls_speak_h2() */
    unsigned char *chosen;

    (void)unused;
    int outcome = SSL_select_next_proto(
        &chosen, out_len, h2 ? http2 : http1,
        h2 ? sizeof(http2) - 1 : sizeof(http1) - 1, in, in_len);
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

/* The certificate that is shown. */
static const char *
load_own(SSL_CTX *ssl, const struct sock_tls_files *files)
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
    return NULL;
}

static const char *
load_server(SSL_CTX *ssl, const struct sock_tls_files *files)
{
    const char *why = load_own(ssl, files);

    if (why != NULL || files->ca[0] == '\0') {
        return why;
    }
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(files->ca);
    if (names == NULL || SSL_CTX_load_verify_file(ssl, files->ca) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return "the clients' CA cannot be read";
    }
    SSL_CTX_set_client_CA_list(ssl, names);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                       NULL);
    return NULL;
}

/* Without a file the system's authorities are looked at one by one, when a
 * certificate names them. */
static const char *
load_client(SSL_CTX *ssl, const struct sock_tls_files *files)
{
    bool trusts = files->ca[0] != '\0'
                      ? SSL_CTX_load_verify_file(ssl, files->ca) == 1
                      : SSL_CTX_set_default_verify_dir(ssl) == 1;

    if (!trusts) {
        return "the authorities cannot be read";
    }
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    return files->cert[0] != '\0' ? load_own(ssl, files) : NULL;
}

/* Resuming a session of TLS 1.3 exchanges fresh keys. One of 1.2 does not: who
 * learned the key of its ticket could read it. */
static int
give_tickets(SSL *ssl, void *unused)
{
    (void)unused;
    if (SSL_version(ssl) < TLS1_3_VERSION) {
        (void)SSL_set_options(ssl, SSL_OP_NO_TICKET);
    }
    return 1;
}

/* Sessions of clients with certificates end with the context that verified
 * them, as its key of tickets does. */
static bool
configure_server(SSL_CTX *ssl)
{
    static const unsigned char name[] = "kvasir";

    /* A request says itself how long it is: an end without TLS's own, as many
     * clients leave, cuts nothing off unseen. An answer may go on to the end. */
    (void)SSL_CTX_set_options(ssl, SSL_OP_IGNORE_UNEXPECTED_EOF);
    (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, NULL);
    SSL_CTX_set_cert_cb(ssl, give_tickets, NULL);
    (void)SSL_CTX_set_timeout(ssl, SOCK_TLS_RESUME_S);
    return SSL_CTX_set_num_tickets(ssl, 1) == 1 &&
           SSL_CTX_set_session_id_context(ssl, name, sizeof(name) - 1) == 1;
}

static bool
configure_client(SSL_CTX *ssl)
{
    static const unsigned char ours[] = "\x08http/1.1";

    (void)SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET); /* of 1.2 */
    (void)SSL_CTX_set_session_cache_mode(
        ssl, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ssl, sock_tls_keep);
    return SSL_CTX_set_alpn_protos(ssl, ours, sizeof(ours) - 1) == 0;
}

static const char *
configure(SSL_CTX *ssl, bool client, const struct sock_tls_files *files)
{
    SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION |
                                       SSL_OP_NO_COMPRESSION |
                                       SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_default_passwd_cb(ssl, no_password);
    if (SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) != 1 ||
        !(client ? configure_client(ssl) : configure_server(ssl))) {
        return "TLS 1.2 is not available";
    }
    return client ? load_client(ssl, files) : load_server(ssl, files);
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

static int
make(struct sock_tls_context **out, bool client,
     const struct sock_tls_files *files, const char **why)
{
    struct sock_tls_context *context = calloc(1, sizeof(*context));

    *out = NULL;
    if (context == NULL) {
        return -ENOMEM;
    }
    context->ssl =
        SSL_CTX_new(client ? TLS_client_method() : TLS_server_method());
    if (context->ssl == NULL) {
        sock_tls_context_free(context);
        return -ENOMEM;
    }
    ERR_clear_error();
    *why = configure(context->ssl, client, files);
    ERR_clear_error();
    if (*why != NULL) {
        sock_tls_context_free(context);
        return SOCK_TLS_E_FILES;
    }
    context->expiry_s = expiry_of(context->ssl);
    *out = context;
    return 0;
}

int
sock_tls_context_new(struct sock_tls_context **out,
                     const struct sock_tls_files *files, const char **why)
{
    return make(out, false, files, why);
}

int
sock_tls_context_new_client(struct sock_tls_context **out,
                            const struct sock_tls_files *files,
                            const char **why)
{
    return make(out, true, files, why);
}

struct sock_tls_context *
sock_tls_context_share(const struct sock_tls_context *context)
{
    struct sock_tls_context *shared = malloc(sizeof(*shared));

    if (shared != NULL) {
        *shared = *context;
        if (SSL_CTX_up_ref(shared->ssl) != 1) {
            free(shared);
            return NULL;
        }
    }
    return shared;
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
