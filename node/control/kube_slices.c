/* Lists and events of EndpointSlices. */
#include "node/control/kube_slices.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/arena.h"
#include "node/text/json_pull.h"
#include "node/text/json_tree.h"

static struct slice
text_of(const struct json_value *object, const char *key)
{
    const struct json_value *value = json_tree_member(object, key);

    return value != NULL && value->kind == JSON_STRING ? json_tree_slice(value)
                                                       : SLICE("");
}

/* How many items the list has; 0: it is none. */
static uint32_t
list_of(const struct json_value *object, const char *key,
        const struct json_value **items)
{
    const struct json_value *value = json_tree_member(object, key);

    if (value == NULL || value->kind != JSON_ARRAY) {
        return 0;
    }
    *items = value->as.items;
    return value->len;
}

/* The slice's port of that name, or the number that it is; 0: it has none. */
static uint16_t
port_of(const struct json_value *slice, struct slice wanted)
{
    const struct json_value *ports = NULL;
    uint32_t count = list_of(slice, "ports", &ports);
    char digits[8];

    if (wanted.ptr[0] >= '0' && wanted.ptr[0] <= '9' &&
        wanted.len < sizeof digits) {
        memcpy(digits, wanted.ptr, wanted.len);
        digits[wanted.len] = '\0';
        return (uint16_t)strtoul(digits, NULL, 10);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct json_value *number = json_tree_member(&ports[i], "port");
        if (slice_equal(text_of(&ports[i], "name"), wanted) && number != NULL &&
            number->kind == JSON_INT && number->as.integer > 0 &&
            number->as.integer <= UINT16_MAX) {
            return (uint16_t)number->as.integer;
        }
    }
    return 0;
}

static bool
read_ip(struct slice text, struct discover_ip *ip)
{
    char address[INET6_ADDRSTRLEN];

    if (text.len == 0 || text.len >= sizeof address) {
        return false;
    }
    memcpy(address, text.ptr, text.len);
    address[text.len] = '\0';
    memset(ip, 0, sizeof *ip);
    ip->size = 4;
    if (inet_pton(AF_INET, address, ip->bytes) == 1) {
        return true;
    }
    ip->size = 16;
    return inet_pton(AF_INET6, address, ip->bytes) == 1;
}

static bool
is_ready(const struct json_value *endpoint)
{
    const struct json_value *ready =
        json_tree_member(json_tree_member(endpoint, "conditions"), "ready");

    return ready == NULL || ready->kind != JSON_BOOL || ready->as.integer != 0;
}

static void
add(struct kube_list *list, const struct json_value *endpoint, uint16_t port)
{
    const struct json_value *addresses = NULL;
    struct kube_address found = {.port = port};

    if (!is_ready(endpoint) ||
        list_of(endpoint, "addresses", &addresses) == 0 ||
        addresses[0].kind != JSON_STRING ||
        !read_ip(json_tree_slice(&addresses[0]), &found.ip)) {
        return;
    }
    if (list->count == WORKERS_MAX) {
        list->cut = true;
        return;
    }
    list->found[list->count++] = found;
}

static void
read_slice(const struct json_value *slice, struct slice port,
           struct kube_list *list)
{
    const struct json_value *endpoints = NULL;
    uint32_t count = list_of(slice, "endpoints", &endpoints);
    uint16_t number = port_of(slice, port);

    for (uint32_t i = 0; number != 0 && i < count; i++) {
        add(list, &endpoints[i], number);
    }
}

static void
prefer_v4(struct kube_list *list)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->count; i++) {
        if (list->found[i].ip.size == 4) {
            list->found[kept++] = list->found[i];
        }
    }
    if (kept != 0) {
        list->count = kept;
    }
}

/* What has no room is none: then the watch cannot begin there. */
static void
copy_version(struct slice text, char version[KUBE_VERSION_MAX])
{
    size_t len = text.len < KUBE_VERSION_MAX ? text.len : 0;

    if (len != 0) {
        memcpy(version, text.ptr, len);
    }
    version[len] = '\0';
}

bool
kube_slices_read(struct slice json, struct slice port, struct kube_list *list)
{
    const struct json_value *items = NULL;
    struct json_tree_fault fault;
    struct json_value root;
    struct arena arena;

    CHECK(port.len != 0);
    memset(list, 0, sizeof *list);
    arena_init(&arena, KUBE_TREE_BYTES);
    bool good = json_tree_read(json, &arena, &root, &fault) &&
                slice_equal(text_of(&root, "kind"), SLICE("EndpointSliceList"));
    if (good) {
        copy_version(
            text_of(json_tree_member(&root, "metadata"), "resourceVersion"),
            list->version);
        list->slices = list_of(&root, "items", &items);
        for (uint32_t i = 0; i < list->slices; i++) {
            read_slice(&items[i], port, list);
        }
        prefer_v4(list);
    }
    arena_fini(&arena);
    return good;
}

/* The value of object.metadata.resourceVersion, as the reader goes through. */
static void
take_version(struct json_pull *pull, char version[KUBE_VERSION_MAX])
{
    if (json_pull_next(pull) == PULL_STRING && !pull->escaped) {
        copy_version(pull->text, version);
    }
}

enum kube_event
kube_event_read(struct slice line, char version[KUBE_VERSION_MAX])
{
    enum kube_event event = KUBE_GONE;
    enum pull_token token;
    struct json_pull pull;

    json_pull_init(&pull, line);
    while ((token = json_pull_next(&pull)) > PULL_END) {
        if (token != PULL_KEY) {
            continue;
        }
        if (pull.depth == 1 && json_pull_is(&pull, SLICE("type"))) {
            if (json_pull_next(&pull) != PULL_STRING) {
                return KUBE_GONE;
            }
            event = json_pull_is(&pull, SLICE("BOOKMARK")) ? KUBE_BOOKMARK
                    : json_pull_is(&pull, SLICE("ADDED")) ||
                            json_pull_is(&pull, SLICE("MODIFIED")) ||
                            json_pull_is(&pull, SLICE("DELETED"))
                        ? KUBE_CHANGED
                        : KUBE_GONE;
        } else if (pull.depth == 3 &&
                   json_pull_is(&pull, SLICE("resourceVersion"))) {
            take_version(&pull, version);
        } else if (!(pull.depth == 1 && json_pull_is(&pull, SLICE("object"))) &&
                   !(pull.depth == 2 &&
                     json_pull_is(&pull, SLICE("metadata"))) &&
                   !json_pull_skip(&pull)) {
            return KUBE_GONE;
        }
    }
    return token == PULL_END ? event : KUBE_GONE;
}
