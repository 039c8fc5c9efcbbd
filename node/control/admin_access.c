/* The guard of the admin port with its tokens, and the log of changes. */
#include "node/control/admin_access.h"

#include <sys/stat.h>

#include "node/base/log.h"
#include "node/config/config_access.h"
#include "node/control/admin_guard.h"
#include "node/http/http_status.h"

/* Which file it is and when it, its mode or its owner changed, as a number; 0:
 * there is none. */
static uint64_t
stamp_of(const char *path)
{
    struct stat status;

    if (stat(path, &status) != 0) {
        return 0;
    }
    const uint64_t parts[] = {(uint64_t)status.st_ino, (uint64_t)status.st_size,
                              (uint64_t)status.st_ctim.tv_sec,
                              (uint64_t)status.st_ctim.tv_nsec};
    uint64_t stamp = 1;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        stamp = stamp * UINT64_C(0x9E3779B97F4A7C15) + parts[i];
    }
    return stamp != 0 ? stamp : 1;
}

static int
read_tokens(struct admin_access *access)
{
    const char *path = access->config->admin_access.token_file;
    const char *want;

    access->stamp = stamp_of(path);
    int error = http_tokens_load(path, &access->tokens, &want);
    if (error != 0) {
        LOG_ERROR(
            "admin_tokens_unread", KV("file", path),
            KV("expected", want != NULL ? want : "a file"),
            KV_FAULT("error", error),
            KV("hint",
               "mend it: the tokens read before stay in force, and the file "
               "is looked at again every second"));
        return error;
    }
    error = shared_publish_operators(access->node, &access->tokens);
    if (error != 0) {
        LOG_ERROR("admin_tokens_untold", KV_FAULT("error", error),
                  KV("hint", "the serving port has the tokens read before; it "
                             "is tried again"));
        access->stamp = 0; /* the next look tries again */
    }
    return error;
}

bool
admin_access_has_tokens(const struct admin_access *access)
{
    return access->config->admin_access.token_file[0] != '\0';
}

int
admin_access_init(struct admin_access *access, struct node_shared *node)
{
    const struct config *config = node->config;

    *access = (struct admin_access){
        .node = node,
        .config = config,
        .token = "",
    };
    if (admin_access_has_tokens(access)) {
        return read_tokens(access);
    }
    if (!config_is_loopback(config->admin.host)) {
        LOG_WARNING("admin_without_tokens", KV("host", config->admin.host),
                    KV("what", "whoever reaches the admin port can change this "
                               "node (admin.insecure)"),
                    KV("hint", "give admin.token_file, a file with a token in "
                               "each line, or listen on loopback"));
    }
    return 0;
}

bool
admin_access_refresh(struct admin_access *access)
{
    if (!admin_access_has_tokens(access) ||
        stamp_of(access->config->admin_access.token_file) == access->stamp ||
        read_tokens(access) != 0) {
        return false;
    }
    LOG_INFO("admin_tokens_read", KV("tokens", access->tokens.count));
    return true;
}

static void
answer_refusal(struct httpd_request *request,
               const struct admin_refusal *refusal)
{
    char text[HTTP_ERROR_ROOM];
    struct slice body =
        http_error_body(refusal->status, refusal->code, refusal->message, text);
    struct slice extra = refusal->status == 401
                             ? SLICE("WWW-Authenticate: Bearer\r\n")
                             : SLICE("");

    httpd_answer(request, refusal->status, "application/json", extra, body);
}

static struct admin_guard
guard_of(const struct admin_access *access)
{
    return (struct admin_guard){
        .tokens = admin_access_has_tokens(access) ? &access->tokens : NULL,
        .name = access->config->name,
    };
}

bool
admin_access_knows(const struct admin_access *access,
                   const struct http_head *head)
{
    struct admin_guard guard = guard_of(access);
    const struct http_token *token;
    struct admin_refusal refusal;

    return admin_guard_admits(&guard, head, true, &token, &refusal);
}

bool
admin_access_admits(struct admin_access *access, struct httpd_request *request)
{
    const struct http_head *head = httpd_head(request);
    const struct http_token *token;
    struct admin_refusal refusal;
    struct admin_guard guard = guard_of(access);

    (void)httpd_peer(request, access->peer);
    /* As the head says: what a stranger sends is not read. */
    if (admin_guard_admits(&guard, head, head->body != HTTP_BODY_NONE, &token,
                           &refusal)) {
        access->token = token != NULL ? token->name : "";
        access->joins = token != NULL && token->joins;
        return true;
    }
    LOG_WARNING("admin_refused", KV("by", (const char *)access->peer),
                KV("method", head->method), KV("path", head->path),
                KV("reason", refusal.code), KV("hint", refusal.message));
    answer_refusal(request, &refusal);
    return false;
}

void
admin_access_log(const struct admin_access *access,
                 const struct httpd_request *request, struct slice worker,
                 const char *fault)
{
    const struct http_head *head = httpd_head(request);
    const char *token = access->token[0] != '\0' ? access->token : "none";

    LOG_EACH(LOG_LEVEL_INFO, "admin_change", KV("by", access->peer + 0),
             KV("token", token), KV("method", head->method),
             KV("path", head->path), KV("worker", worker),
             KV("outcome", fault != NULL ? fault : "done"));
}
