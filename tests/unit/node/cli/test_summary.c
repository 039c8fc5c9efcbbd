/* What the log says of each port as a node begins to serve. */
#include <criterion/criterion.h>
#include <string.h>

#include "node/cli/summary_internal.h"

static struct config config;
static struct config_errors errors;
static char said[512];

static void
setup(void)
{
    config_errors_init(&errors);
    config_init(&config);
}

static void
teardown(void)
{
    config_fini(&config);
    config_errors_fini(&errors);
}

TestSuite(node_summary, .init = setup, .fini = teardown);

static const char *
protection(enum summary_port port, const struct config_flag *flags,
           size_t count)
{
    struct buf out;

    config_apply_flags(&config, flags, count, &errors);
    cr_assert_eq(errors.text.len, 0, "%.*s", (int)errors.text.len,
                 errors.text.ptr);
    buf_init(&out, sizeof said);
    summary_protection(&config, port, &out);
    cr_assert_lt(out.len, sizeof said);
    memcpy(said, out.ptr, out.len);
    said[out.len] = '\0';
    buf_fini(&out);
    return said;
}

#define SAYS(port, text, ...)                                             \
    do {                                                                  \
        const struct config_flag flags_[] = {__VA_ARGS__};                \
        cr_assert_str_eq(                                                 \
            protection((port), flags_, sizeof flags_ / sizeof flags_[0]), \
            (text));                                                      \
    } while (0)

Test(node_summary, an_open_port_for_clients_is_told_to_serve_everybody)
{
    SAYS(SUMMARY_LISTEN, "clear text, no keys: whoever reaches it is served",
         {"listen", "0.0.0.0:8080"});
    SAYS(SUMMARY_LISTEN, "clear text, no keys, this machine alone",
         {"listen", "127.0.0.1:8080"});
    SAYS(SUMMARY_LISTEN, "clear text, keys", {"listen", ":8080"},
         {"keys.file", "keys.yaml"});
    SAYS(SUMMARY_LISTEN, "clear text, keys or tokens", {"jwt.jwks", "jwks"});
    SAYS(SUMMARY_LISTEN, "TLS, keys or tokens", {"tls.cert_file", "c.pem"},
         {"tls.key_file", "k.pem"});
}

Test(node_summary, clients_certificates_keep_strangers_off_without_keys)
{
    SAYS(SUMMARY_LISTEN, "TLS, no keys: whoever reaches it is served",
         {"tls.cert_file", "c.pem"}, {"tls.key_file", "k.pem"});
    SAYS(SUMMARY_LISTEN, "TLS with clients' certificates, no keys",
         {"tls.client_ca_file", "ca.pem"});
}

Test(node_summary, the_admin_port_has_tokens_or_is_this_machine_s)
{
    SAYS(SUMMARY_ADMIN, "clear text, no tokens, this machine alone",
         {"admin", "127.0.0.1:9080"});
    SAYS(SUMMARY_ADMIN,
         "clear text, no tokens: whoever reaches it may change the node "
         "(admin.insecure)",
         {"admin", "0.0.0.0:9080"}, {"admin.insecure", "true"});
    SAYS(SUMMARY_ADMIN, "TLS, tokens", {"admin.token_file", "tokens"},
         {"tls.admin", "on"});
    SAYS(SUMMARY_EXTPROC, "clear text, no keys, this machine alone",
         {"extproc.listen", "127.0.0.1:9002"}, {"listen", "0.0.0.0:8080"});
    SAYS(SUMMARY_METRICS, "TLS, reads alone", {"admin.metrics", ":9090"});
}

Test(node_summary, the_mesh_has_tls_or_a_secret_or_is_this_machine_s)
{
    SAYS(SUMMARY_MESH, "clear text, this machine alone",
         {"mesh", "127.0.0.1:7946"});
    SAYS(SUMMARY_MESH,
         "clear text: whoever reaches it may join (mesh.insecure)",
         {"mesh", "10.0.0.1:7946"}, {"mesh.insecure", "true"});
    SAYS(SUMMARY_MESH, "clear text, a shared secret",
         {"mesh.secret_file", "secret"});
    SAYS(SUMMARY_MESH, "TLS with nodes' certificates",
         {"mesh.tls_ca", "ca.pem"}, {"mesh.tls_cert", "c.pem"},
         {"mesh.tls_key", "k.pem"}, {"mesh.tls_server_name", "kvasir.mesh"});
}
