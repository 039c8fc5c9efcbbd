/* Certificates and keys for NNG. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/link_internal.h"

#define PEM_MAX ((size_t)256 << 10)

/* Secrets must not stay in freed memory. */
static void
forget(char *text)
{
    if (text != NULL) {
        explicit_bzero(text, strlen(text));
        free(text);
    }
}

/* Reads the whole file as text; -errno or -EFBIG on failure. */
static int
read_file(const char *path, char **out)
{
    FILE *file = fopen(path, "re");
    char *text = malloc(PEM_MAX + 1);
    int rc = 0;

    if (file == NULL || text == NULL) {
        rc = file == NULL ? -errno : -ENOMEM;
        goto done;
    }
    (void)setvbuf(file, NULL, _IONBF, 0); /* keeps no copy in stdio's buffer */
    size_t len = fread(text, 1, PEM_MAX + 1, file);
    if (ferror(file) != 0 || len > PEM_MAX) {
        rc = ferror(file) != 0 ? -EIO : -EFBIG;
        explicit_bzero(text, len);
        goto done;
    }
    text[len] = '\0';
    *out = text;
    text = NULL;
done:
    free(text);
    if (file != NULL) {
        (void)fclose(file);
    }
    return rc;
}

struct pems {
    char *ca;
    char *cert;
    char *key;
};

static int
make(nng_tls_config **out, nng_tls_mode mode, const struct pems *pems,
     const char *server_name, const char **why)
{
    int rv;

    if ((rv = nng_tls_config_alloc(out, mode)) != 0) {
        *why = "TLS is not available";
        return link_errno(rv);
    }
    if ((rv = nng_tls_config_ca_chain(*out, pems->ca, NULL)) != 0) {
        *why = "the CA's file has no certificate that can be read";
    } else if ((rv = nng_tls_config_own_cert(*out, pems->cert, pems->key,
                                             NULL)) != 0) {
        *why = "the certificate or its key cannot be read";
    } else if ((rv = nng_tls_config_auth_mode(
                    *out, NNG_TLS_AUTH_MODE_REQUIRED)) != 0) {
        *why = "TLS cannot require certificates";
    } else if (mode == NNG_TLS_MODE_CLIENT &&
               (rv = nng_tls_config_server_name(*out, server_name)) != 0) {
        *why = "TLS cannot check names";
    }
    return rv == 0 ? 0 : MESH_LINK_E_CONFIG;
}

int
link_tls_open(struct mesh_link *link, const struct mesh_link_tls *tls,
              const char **why)
{
    struct pems pems = {NULL};
    int rc;

    if ((rc = read_file(tls->ca, &pems.ca)) != 0) {
        *why = "the CA's file cannot be read";
    } else if ((rc = read_file(tls->cert, &pems.cert)) != 0) {
        *why = "the certificate's file cannot be read";
    } else if ((rc = read_file(tls->key, &pems.key)) != 0) {
        *why = "the key's file cannot be read";
    } else if ((rc = make(&link->tls_server, NNG_TLS_MODE_SERVER, &pems, NULL,
                          why)) == 0) {
        rc = make(&link->tls_client, NNG_TLS_MODE_CLIENT, &pems,
                  tls->server_name, why);
    }
    forget(pems.ca);
    forget(pems.cert);
    forget(pems.key);
    return rc;
}

void
link_tls_close(struct mesh_link *link)
{
    if (link->tls_server != NULL) {
        nng_tls_config_free(link->tls_server);
    }
    if (link->tls_client != NULL) {
        nng_tls_config_free(link->tls_client);
    }
}
