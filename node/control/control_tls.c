/* Reads and publishes the serving port's certificate. */
#include "node/control/control_tls.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "node/base/log.h"
#include "node/text/prom_out.h"

#define DAY_S  INT64_C(86400)
#define WARN_S (14 * DAY_S)

static void
free_retired(struct qsbr_node *retired)
{
    shared_free_tls((struct node_tls *)(void *)retired); /* its first member */
}

/* One line, as the configuration's are. */
static int
refuse(struct config_errors *errors, const char *why)
{
    buf_printf(&errors->text, "tls.cert_file, tls.key_file: %s\n", why);
    errors->count++;
    return CONFIG_E_INVALID;
}

int
control_tls_read(const struct node_shared *node, struct node_tls **fresh,
                 struct config_errors *errors)
{
    const struct config_tls *paths = &node->config->tls;
    struct sock_tls_files files = {.cert = paths->cert_file,
                                   .key = paths->key_file,
                                   .client_ca = paths->client_ca_file};
    const char *why = "out of memory";

    *fresh = NULL;
    if (paths->cert_file[0] == '\0') {
        return 0; /* whether there is TLS is settled when a node starts */
    }
    struct node_tls *tls = calloc(1, sizeof(*tls));
    if (tls == NULL || sock_tls_context_new(&tls->context, &files, &why) != 0) {
        free(tls);
        return refuse(errors, why);
    }
    *fresh = tls;
    return 0;
}

static void
say(const struct node_shared *node, int64_t expiry_s)
{
    const char *file = node->config->tls.cert_file;
    int64_t left_s = expiry_s - time(NULL);

    LOG_INFO("tls_read", KV("file", file), KV("not_after_s", expiry_s));
    if (left_s < WARN_S) {
        LOG_WARNING("tls_ends", KV("file", file), KV("days", left_s / DAY_S));
    }
}

void
control_tls_publish(struct node_shared *node, struct node_tls *fresh)
{
    struct node_tls *before =
        (struct node_tls *)(uintptr_t)publish_get(&node->tls);

    if (fresh == NULL) {
        return;
    }
    publish_set(&node->tls, fresh);
    if (before != NULL) {
        qsbr_retire(&node->qsbr, &before->retired, free_retired);
    }
    say(node, sock_tls_expiry(fresh->context));
}

int
control_tls_start(struct node_shared *node)
{
    struct config_errors errors;
    struct node_tls *fresh;

    config_errors_init(&errors);
    int outcome = control_tls_read(node, &fresh, &errors);
    if (outcome == 0) {
        control_tls_publish(node, fresh);
    } else {
        LOG_ERROR("tls_unread", KV("why", buf_slice(&errors.text)));
    }
    config_errors_fini(&errors);
    return outcome == 0 ? 0 : -EINVAL;
}

void
control_tls_put_metrics(const struct node_shared *node, struct buf *out)
{
    const struct node_tls *tls = publish_get(&node->tls);

    if (tls != NULL) {
        int64_t expiry_s = sock_tls_expiry(tls->context);
        prom_out_single(out, "kvasir_tls_not_after_seconds", "gauge",
                        "When the serving port's certificate ends, in seconds "
                        "since 1970",
                        expiry_s > 0 ? (uint64_t)expiry_s : 0);
    }
}
