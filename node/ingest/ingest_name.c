/* Which address of a name is used. */
#include "node/ingest/ingest_name.h"

#include <arpa/inet.h>
#include <string.h>

#include "index/base/check.h"

struct addresses {
    size_t count;
    char text[INGEST_ADDRESSES_MAX][INTAKE_ADDRESS_SIZE];
};

const char *
ingest_name_state_name(enum ingest_name_state state)
{
    static const char *const names[] = {"none", "new", "found", "unresolved",
                                        "denied"};

    CHECK((size_t)state < sizeof names / sizeof names[0]);
    return names[state];
}

void
ingest_name_init(struct ingest_name *name)
{
    *name = (struct ingest_name){.state = INGEST_NAME_NEW};
}

bool
ingest_name_due(struct ingest_name *name, bool works, uint64_t now_us)
{
    name->works = works;
    if (name->state == INGEST_NAME_NONE || name->due_us == UINT64_MAX ||
        now_us < name->due_us || (works && name->address[0] != '\0')) {
        return false;
    }
    name->due_us = UINT64_MAX;
    return true;
}

static bool
write_address(const struct sockaddr_storage *from,
              char out[INTAKE_ADDRESS_SIZE])
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (from->ss_family == AF_INET) {
        memcpy(&v4, from, sizeof v4);
        return inet_ntop(AF_INET, &v4.sin_addr, out, INTAKE_ADDRESS_SIZE) !=
               NULL;
    }
    if (from->ss_family == AF_INET6) {
        memcpy(&v6, from, sizeof v6);
        return inet_ntop(AF_INET6, &v6.sin6_addr, out, INTAKE_ADDRESS_SIZE) !=
               NULL;
    }
    return false;
}

/* Those that are allowed. */
static void
judge(const struct ranges *deny, const struct sockaddr_storage *found,
      size_t count, struct addresses *allowed,
      struct ingest_name_denied *denied)
{
    allowed->count = 0;
    for (size_t i = 0; i < count; i++) {
        char *text = allowed->text[allowed->count];
        const struct range *range =
            ranges_find(deny, (const struct sockaddr *)&found[i]);
        if (!write_address(&found[i], text)) {
            continue;
        }
        if (range == NULL) {
            allowed->count++;
        } else if (denied->range == NULL) {
            denied->range = range;
            memcpy(denied->address, text, sizeof denied->address);
        }
    }
}

static const char *
choose(const struct ingest_name *name, const struct addresses *allowed)
{
    for (size_t i = 0; i < allowed->count; i++) {
        if (strcmp(allowed->text[i], name->address) == 0) {
            return allowed->text[name->works ? i : (i + 1) % allowed->count];
        }
    }
    return allowed->text[0];
}

bool
ingest_name_take(struct ingest_name *name, const struct ranges *deny,
                 const struct sockaddr_storage *found, size_t count,
                 uint64_t now_us, uint64_t again_us,
                 struct ingest_name_denied *denied)
{
    struct addresses allowed;
    char before[INTAKE_ADDRESS_SIZE];

    CHECK(name->state != INGEST_NAME_NONE && count <= INGEST_ADDRESSES_MAX);
    name->due_us = now_us + again_us;
    *denied = (struct ingest_name_denied){.range = NULL};
    judge(deny, found, count, &allowed, denied);
    memcpy(before, name->address, sizeof before);
    if (allowed.count != 0) {
        name->state = INGEST_NAME_FOUND;
        memcpy(name->address, choose(name, &allowed), sizeof name->address);
    } else if (denied->range != NULL) {
        name->state = INGEST_NAME_DENIED;
        name->address[0] = '\0';
    } else {
        name->state = INGEST_NAME_UNRESOLVED;
    }
    return strcmp(before, name->address) != 0;
}
