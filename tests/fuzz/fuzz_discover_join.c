/* Any text as a join: refused with a reason, or read into what reads the same
 * again when it is written out. */
#include <stdio.h>
#include <string.h>

#include "mesh/discover.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
same_again(const struct discover_join *join)
{
    char text[DISCOVER_NAME_MAX + 16];
    struct discover_join again;

    switch (join->kind) {
    case DISCOVER_ADDRESS:
        CHECK(strlen(join->name) < DISCOVER_ADDRESS_MAX && join->port == 0);
        (void)snprintf(text, sizeof text, "%s", join->name);
        break;
    case DISCOVER_HOST:
        CHECK(join->port != 0);
        (void)snprintf(text, sizeof text, "dns:%s:%u", join->name, join->port);
        break;
    case DISCOVER_SERVICE:
        CHECK(join->port == 0);
        (void)snprintf(text, sizeof text, "srv:%s", join->name);
        break;
    }
    CHECK(discover_parse(slice_of(text), &again) == NULL);
    CHECK(again.kind == join->kind && again.port == join->port);
    CHECK(strcmp(again.name, join->name) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = {.ptr = (const char *)data, .len = size};
    struct discover_join join;
    const char *wanted = discover_parse(text, &join);

    if (wanted == NULL) {
        same_again(&join);
    } else {
        CHECK(wanted[0] != '\0');
    }
    return 0;
}
