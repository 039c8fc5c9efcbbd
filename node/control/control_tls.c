/* Reads and publishes certificates. */
#include "node/control/control_tls.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "node/base/log.h"
#include "node/text/prom_out.h"

#define DAY_S  INT64_C(86400)
#define WARN_S (14 * DAY_S)
#define EXPIRY "kvasir_certificate_expiry_timestamp_seconds"

static void
free_retired(struct qsbr_node *retired)
{
    shared_free_tls((struct node_tls *)(void *)retired); /* its first member */
}

/* One line, as the configuration's are. */
static int
refuse(struct config_errors *errors, const char *keys, const char *why)
{
    buf_printf(&errors->text, "%s: %s\n", keys, why);
    errors->count++;
    return CONFIG_E_INVALID;
}

void
control_tls_free(struct control_tls *fresh)
{
    shared_free_tls(fresh->clients);
    shared_free_tls(fresh->admin);
    shared_free_tls(fresh->workers);
    *fresh = (struct control_tls){.clients = NULL};
}

static int
read_one(struct node_tls **out, const struct sock_tls_files *files, bool client,
         const char **why)
{
    struct node_tls *tls = calloc(1, sizeof(*tls));
    int outcome = -ENOMEM;

    *out = tls;
    *why = "out of memory";
    if (tls != NULL) {
        outcome = client
                      ? sock_tls_context_new_client(&tls->context, files, why)
                      : sock_tls_context_new(&tls->context, files, why);
    }
    return outcome;
}

static bool
is_own(const struct config_tls *paths)
{
    return paths->admin_cert_file[0] != '\0';
}

/* Clients' certificates are for the serving port alone: here tokens count. */
static int
read_admin(const struct config_tls *paths, struct control_tls *fresh,
           struct config_errors *errors)
{
    bool own = is_own(paths);
    struct sock_tls_files files = {
        .cert = own ? paths->admin_cert_file : paths->cert_file,
        .key = own ? paths->admin_key_file : paths->key_file,
        .ca = ""};
    const char *why;

    if (paths->admin == 0 ||
        read_one(&fresh->admin, &files, false, &why) == 0) {
        return 0;
    }
    return refuse(errors,
                  own ? "tls.admin_cert_file, tls.admin_key_file"
                      : "tls.cert_file, tls.key_file",
                  why);
}

static int
read_all(const struct config_tls *paths, struct control_tls *fresh,
         struct config_errors *errors)
{
    struct sock_tls_files clients = {.cert = paths->cert_file,
                                     .key = paths->key_file,
                                     .ca = paths->client_ca_file};
    struct sock_tls_files workers = {.cert = paths->workers_cert_file,
                                     .key = paths->workers_key_file,
                                     .ca = paths->workers_ca_file};
    const char *why;

    /* Whether there is TLS is settled when a node starts. */
    if (paths->cert_file[0] != '\0' &&
        read_one(&fresh->clients, &clients, false, &why) != 0) {
        return refuse(errors, "tls.cert_file, tls.key_file", why);
    }
    if (read_admin(paths, fresh, errors) != 0) {
        return CONFIG_E_INVALID;
    }
    if (read_one(&fresh->workers, &workers, true, &why) != 0) {
        return refuse(errors, "tls.workers_ca_file, tls.workers_cert_file",
                      why);
    }
    return 0;
}

int
control_tls_read(const struct node_shared *node, struct control_tls *fresh,
                 struct config_errors *errors)
{
    *fresh = (struct control_tls){.clients = NULL};
    int outcome = read_all(&node->config->tls, fresh, errors);
    if (outcome != 0) {
        control_tls_free(fresh);
    }
    return outcome;
}

static void
say(const char *file, int64_t expiry_s)
{
    int64_t left_s = expiry_s - time(NULL);

    if (file[0] == '\0') {
        return;
    }
    LOG_INFO("tls_read", KV("file", file), KV("not_after_s", expiry_s));
    if (left_s < WARN_S) {
        LOG_WARNING("tls_ends", KV("file", file), KV("days", left_s / DAY_S),
                    KV("hint", "replace the files, then reload (SIGHUP)"));
    }
}

static void ON_CONTROL
publish(struct node_shared *node, struct publish *at, struct node_tls *fresh,
        const char *file)
{
    struct node_tls *before = (struct node_tls *)(uintptr_t)publish_get(at);

    if (fresh == NULL) {
        return;
    }
    fresh->version = before != NULL ? before->version + 1 : 1;
    publish_set(at, fresh);
    if (before != NULL) {
        qsbr_retire(&node->qsbr, &before->retired, free_retired);
    }
    say(file, sock_tls_expiry(fresh->context));
}

void
control_tls_publish(struct node_shared *node, struct control_tls *fresh)
{
    const struct config_tls *paths = &node->config->tls;

    publish(node, &node->tls, fresh->clients, paths->cert_file);
    publish(node, &node->admin_tls, fresh->admin,
            is_own(paths) ? paths->admin_cert_file : "");
    publish(node, &node->workers_tls, fresh->workers, paths->workers_cert_file);
    *fresh = (struct control_tls){.clients = NULL};
}

const struct sock_tls_context *
control_tls_of_admin(const struct node_shared *node)
{
    const struct node_tls *tls = publish_get(&node->admin_tls);

    return tls != NULL ? tls->context : NULL;
}

const struct sock_tls_context *
control_tls_of_workers(const struct node_shared *node)
{
    const struct node_tls *tls = publish_get(&node->workers_tls);

    return tls->context;
}

int
control_tls_start(struct node_shared *node)
{
    struct config_errors errors;
    struct control_tls fresh;

    config_errors_init(&errors);
    int outcome = control_tls_read(node, &fresh, &errors);
    if (outcome == 0) {
        control_tls_publish(node, &fresh);
    } else {
        LOG_ERROR("tls_unread", KV("why", buf_slice(&errors.text)),
                  KV("hint", "the certificates read before stay in use: mend "
                             "the files and reload"));
    }
    config_errors_fini(&errors);
    return outcome == 0 ? 0 : -EINVAL;
}

void
control_tls_put_metrics(const struct node_shared *node, int64_t mesh_expiry_s,
                        struct buf *out)
{
    const struct {
        const char *name;
        const struct node_tls *tls;
    } all[] = {
        {"serving", publish_get(&node->tls)},
        {"admin", publish_get(&node->admin_tls)},
        {"workers", publish_get(&node->workers_tls)},
    };

    prom_out_head(out, EXPIRY, "gauge",
                  "When the certificate that this node shows there ends, "
                  "since 1970; mesh: to other nodes");
    if (mesh_expiry_s > 0) {
        buf_printf(out, EXPIRY "{certificate=\"mesh\"} %" PRId64 "\n",
                   mesh_expiry_s);
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int64_t expiry_s = all[i].tls != NULL
                               ? sock_tls_expiry(all[i].tls->context)
                               : INT64_MAX;
        if (expiry_s != INT64_MAX) {
            buf_printf(out, EXPIRY "{certificate=\"%s\"} %" PRId64 "\n",
                       all[i].name, expiry_s);
        }
    }
}
