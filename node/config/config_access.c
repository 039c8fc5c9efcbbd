/* The keys of the admin port, and addresses that workers may not have. */
#include "node/config/config_access.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "node/base/sock_tls.h"
#include "node/config/config_error_internal.h"
#include "node/http/http_tokens.h"

bool
config_is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

static bool
is_same_port(const struct url *a, const struct url *b)
{
    return a->port != 0 && a->port == b->port && strcmp(a->host, b->host) == 0;
}

static void
check_ports(const struct config *config, struct config_errors *errors)
{
    const struct url *metrics = &config->admin_access.metrics;
    const struct url *gateways = &config->extproc.listen;

    if (is_same_port(&config->listen, &config->admin)) {
        config_fault(errors, "admin", "the same address as listen");
    }
    if (is_same_port(metrics, &config->listen) ||
        is_same_port(metrics, &config->admin)) {
        config_fault(errors, "admin.metrics",
                     "the same address as listen or admin");
    }
    if (is_same_port(gateways, &config->listen) ||
        is_same_port(gateways, &config->admin) ||
        is_same_port(gateways, metrics)) {
        config_fault(errors, "extproc.listen",
                     "the same address as listen, admin or admin.metrics");
    }
    if (!config_is_loopback(config->admin.host) &&
        config->admin_access.token_file[0] == '\0' &&
        config->admin_access.insecure == 0) {
        config_fault(
            errors, "admin",
            "without tokens, whoever reaches the admin port can change this "
            "node: expected admin.token_file, an address of loopback, or "
            "admin.insecure: true (for /metrics alone, admin.metrics)");
    }
}

/* A certificate and its key. */
static void
check_pair(const char *cert_key, const char *cert, const char *key_key,
           const char *key, struct config_errors *errors)
{
    if ((cert[0] != '\0') != (key[0] != '\0')) {
        config_fault(errors, cert[0] != '\0' ? key_key : cert_key,
                     "missing: a certificate needs its key, and a key its "
                     "certificate");
    }
}

static void
check_tls(const struct config_tls *tls, struct config_errors *errors)
{
    bool cert = tls->cert_file[0] != '\0';
    bool own = tls->admin_cert_file[0] != '\0';

    if (cert != (tls->key_file[0] != '\0')) {
        config_fault(errors, cert ? "tls.key_file" : "tls.cert_file",
                     "missing: TLS needs tls.cert_file and tls.key_file");
    } else if (!cert && tls->client_ca_file[0] != '\0') {
        config_fault(errors, "tls.client_ca_file",
                     "needs tls.cert_file and tls.key_file");
    }
    check_pair("tls.admin_cert_file", tls->admin_cert_file,
               "tls.admin_key_file", tls->admin_key_file, errors);
    check_pair("tls.workers_cert_file", tls->workers_cert_file,
               "tls.workers_key_file", tls->workers_key_file, errors);
    if (tls->admin != 0 && !cert && !own) {
        config_fault(errors, "tls.admin",
                     "needs tls.cert_file or tls.admin_cert_file");
    } else if (tls->admin == 0 && own) {
        config_fault(errors, "tls.admin_cert_file", "needs tls.admin: on");
    }
}

bool
config_access_denies(const struct ranges *deny,
                     const struct config_worker *worker,
                     char why[CONFIG_DENIED_MAX])
{
    const struct {
        const char *key;
        const char *host;
    } places[] = {
        {"url", worker->url.host},
        {"events", worker->events.host},
        {"replay", worker->replay.host},
        {"sse", worker->sse.host},
    };
    char text[RANGE_TEXT_MAX];

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const struct range *range = ranges_find_host(deny, places[i].host);
        if (range != NULL) {
            (void)snprintf(why, CONFIG_DENIED_MAX,
                           "the address %s of its %s is in %s, which "
                           "workers.deny denies",
                           places[i].host, places[i].key,
                           range_text(range, text));
            return true;
        }
    }
    return false;
}

static void
check_workers(const struct config *config, struct config_errors *errors)
{
    char why[CONFIG_DENIED_MAX];

    for (uint32_t i = 0; i < config->workers_count; i++) {
        const struct config_worker *worker = &config->workers[i];
        if (config_access_denies(&config->workers_deny, worker, why)) {
            config_fault(errors, "workers", "%s: %s", worker->id, why);
        }
    }
}

void
config_access_check(const struct config *config, struct config_errors *errors)
{
    check_ports(config, errors);
    check_tls(&config->tls, errors);
    check_workers(config, errors);
}

/* Of a path that depends on where the program was started, that is told, too. */
static void
add_unread(const char *key, const char *path, int error,
           struct config_errors *errors)
{
    char folder[CONFIG_FILE_MAX] = "";
    size_t size = sizeof folder;
    char text[128];

    bool told = path[0] != '/' && uv_cwd(folder, &size) == 0;
    config_fault(errors, key, "%s cannot be read: %s%s%s", path,
                 uv_strerror_r(error, text, sizeof text),
                 told ? ", looked for in " : "", told ? folder : "");
}

void
config_check_file(const char *key, const char *path,
                  struct config_errors *errors)
{
    if (path[0] != '\0' && access(path, R_OK) != 0) {
        add_unread(key, path, -errno, errors);
    }
}

bool
config_is_pipe(const char *path)
{
    struct stat about;

    return path[0] != '\0' && stat(path, &about) == 0 &&
           S_ISFIFO(about.st_mode);
}

/* As a node reads them; what has no path is not read. */
static void
read_tls(const char *keys, const struct sock_tls_files *files, bool client,
         struct config_errors *errors)
{
    struct sock_tls_context *context = NULL;
    const char *why = "out of memory";

    if ((files->cert[0] == '\0' && (!client || files->ca[0] == '\0')) ||
        config_is_pipe(files->cert) || config_is_pipe(files->key) ||
        config_is_pipe(files->ca)) {
        return;
    }
    int rc = client ? sock_tls_context_new_client(&context, files, &why)
                    : sock_tls_context_new(&context, files, &why);
    if (rc != 0) {
        config_fault(errors, keys, "%s", why);
    }
    sock_tls_context_free(context);
}

static void
check_tls_files(const struct config_tls *tls, struct config_errors *errors)
{
    const struct sock_tls_files clients = {.cert = tls->cert_file,
                                           .key = tls->key_file,
                                           .ca = tls->client_ca_file};
    const struct sock_tls_files admin = {
        .cert = tls->admin_cert_file, .key = tls->admin_key_file, .ca = ""};
    const struct sock_tls_files workers = {.cert = tls->workers_cert_file,
                                           .key = tls->workers_key_file,
                                           .ca = tls->workers_ca_file};
    uint32_t before = errors->count;

    config_check_file("tls.cert_file", tls->cert_file, errors);
    config_check_file("tls.key_file", tls->key_file, errors);
    config_check_file("tls.client_ca_file", tls->client_ca_file, errors);
    config_check_file("tls.admin_cert_file", tls->admin_cert_file, errors);
    config_check_file("tls.admin_key_file", tls->admin_key_file, errors);
    config_check_file("tls.workers_ca_file", tls->workers_ca_file, errors);
    config_check_file("tls.workers_cert_file", tls->workers_cert_file, errors);
    config_check_file("tls.workers_key_file", tls->workers_key_file, errors);
    if (errors->count == before) {
        read_tls("tls.cert_file, tls.key_file", &clients, false, errors);
        read_tls("tls.admin_cert_file, tls.admin_key_file", &admin, false,
                 errors);
        read_tls("tls.workers_ca_file, tls.workers_cert_file", &workers, true,
                 errors);
    }
}

static void
check_token_file(const char *path, struct config_errors *errors)
{
    struct config_place place = {.source = "admin.token_file"};
    struct http_tokens tokens;
    const char *want;

    if (path[0] == '\0') {
        return;
    }
    int error = http_tokens_load(path, &tokens, &want);
    if (want != NULL) {
        config_error(errors, &place, "%s: expected %s", path, want);
    } else if (error != 0) {
        add_unread(place.source, path, error, errors);
    }
}

void
config_access_files(const struct config *config, struct config_errors *errors)
{
    check_tls_files(&config->tls, errors);
    check_token_file(config->admin_access.token_file, errors);
}
