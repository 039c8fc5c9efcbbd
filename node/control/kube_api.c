/* Requests to the API server of Kubernetes. */
#include "node/control/kube_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/base/file.h"
#include "node/base/sock_tls.h"

#define TOKEN_BYTES_MAX 8192U
#define TARGET_MAX      2048U
#define SPACE_MAX       64U

/* The first word of a file of the service account. "": there is none. */
static void
read_word(const struct config_kubernetes *config, const char *name, char *out,
          size_t room)
{
    char path[CONFIG_FILE_MAX + 16];

    (void)snprintf(path, sizeof path, "%s/%s", config->dir, name);
    file_read_word(path, out, room);
}

/* Where the API server is: as configured, or as the pod is told. */
static bool
find_api(const struct config_kubernetes *config, struct url *api)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    char text[URL_TEXT_MAX];

    if (config->api.host[0] != '\0') {
        *api = config->api;
        return true;
    }
    if (host == NULL || port == NULL) {
        return false;
    }
    bool bare = strchr(host, ':') != NULL && host[0] != '[';
    (void)snprintf(text, sizeof text, "https://%s%s%s:%s", bare ? "[" : "",
                   host, bare ? "]" : "", port);
    return url_parse_web(slice_of(text), api) == NULL;
}

/* Why it cannot be; NULL: *out is it, or NULL without TLS. */
static const char *
open_tls(const struct config_kubernetes *config, const struct url *api,
         struct sock_tls_context **out)
{
    char path[CONFIG_FILE_MAX + 16];
    struct sock_tls_files files = {.cert = "", .key = "", .ca = path};
    const char *why = "out of memory";

    *out = NULL;
    if (!api->tls) {
        return NULL;
    }
    (void)snprintf(path, sizeof path, "%s/ca.crt", config->dir);
    return sock_tls_context_new_client(out, &files, &why) == 0 ? NULL : why;
}

/* Why there is none; NULL: it is in out. */
static const char *
find_space(const struct config_kubernetes *config,
           const struct kube_api_place *place, char out[SPACE_MAX])
{
    if (place->space.len == 0) {
        read_word(config, "namespace", out, SPACE_MAX);
    } else {
        (void)snprintf(out, SPACE_MAX, "%.*s", (int)place->space.len,
                       place->space.ptr);
    }
    return out[0] != '\0'
               ? NULL
               : "kubernetes.dir has no namespace, and none is named";
}

const char *
kube_api_start(const struct config_kubernetes *config, uv_loop_t *loop,
               const struct kube_api_place *place,
               struct httpc_request *request, struct httpc **call)
{
    char target[TARGET_MAX];
    char token[TOKEN_BYTES_MAX];
    char headers[TOKEN_BYTES_MAX + 128];
    char space[SPACE_MAX];
    struct sock_tls_context *tls;
    struct url api;

    if (!find_api(config, &api)) {
        return "this is no pod, and kubernetes.api is not set";
    }
    const char *why = find_space(config, place, space);
    if (why != NULL) {
        return why;
    }
    why = open_tls(config, &api, &tls);
    if (why != NULL) {
        return why;
    }
    read_word(config, "token", token, sizeof token);
    (void)snprintf(target, sizeof target, "%s/apis/%s/namespaces/%s/%s",
                   api.path, place->group, space, place->rest);
    (void)snprintf(
        headers, sizeof headers, "Accept: application/json\r\n%s%s%s%s",
        request->body.len != 0 ? "Content-Type: application/json\r\n" : "",
        token[0] != '\0' ? "Authorization: Bearer " : "", token,
        token[0] != '\0' ? "\r\n" : "");
    request->host = api.host;
    request->port = api.port;
    request->tls = tls;
    request->target = target;
    request->headers = slice_of(headers);
    int error = httpc_start(call, loop, request);
    sock_tls_context_free(tls);
    return error == 0 ? NULL : "the request could not be made";
}
