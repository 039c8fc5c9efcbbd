#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "node/control/kube_slices.h"

static struct kube_list list;

/* "10.0.0.1:8000 ..." */
static const char *
found(void)
{
    static char text[1024];
    size_t len = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < list.count; i++) {
        char address[DISCOVER_ADDRESS_MAX];
        cr_assert(
            discover_format(&list.found[i].ip, list.found[i].port, address));
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s",
                                i != 0 ? " " : "", address);
    }
    return text;
}

static bool
reads(const char *items, const char *port)
{
    static char text[8192];

    (void)snprintf(text, sizeof text,
                   "{\"kind\":\"EndpointSliceList\",\"metadata\":{"
                   "\"resourceVersion\":\"17\"},\"items\":[%s]}",
                   items);
    return kube_slices_read(slice_of(text), slice_of(port), &list);
}

#define V4                                                                     \
    "{\"addressType\":\"IPv4\",\"ports\":[{\"name\":\"metrics\",\"port\":9},{" \
    "\"name\":\"http\",\"port\":8000}],\"endpoints\":["                        \
    "{\"addresses\":[\"10.0.0.1\"],\"conditions\":{\"ready\":true}},"          \
    "{\"addresses\":[\"10.0.0.2\"],\"conditions\":{\"ready\":false}},"         \
    "{\"addresses\":[\"10.0.0.3\",\"10.0.0.4\"],\"conditions\":{}},"           \
    "{\"addresses\":[\"10.0.0.5\"],\"conditions\":{\"ready\":null}},"          \
    "{\"addresses\":[]},{\"addresses\":[\"engine.example\"]}]}"
#define V6                                                                  \
    "{\"addressType\":\"IPv6\",\"ports\":[{\"name\":\"http\",\"port\":1}]," \
    "\"endpoints\":[{\"addresses\":[\"fd00::1\"]}]}"

Test(node_kube_slices, each_ready_endpoint_is_one_address)
{
    cr_assert(reads(V4, "http"));
    cr_assert_str_eq(found(), "10.0.0.1:8000 10.0.0.3:8000 10.0.0.5:8000");
    cr_assert_str_eq(list.version, "17");
    cr_assert(reads(V4, "8123"));
    cr_assert_str_eq(found(), "10.0.0.1:8123 10.0.0.3:8123 10.0.0.5:8123");
    cr_assert(reads(V4, "grpc"));
    cr_assert_eq(list.count, 0);
    cr_assert_eq(list.slices, 1);
}

Test(node_kube_slices, of_both_families_the_older_one_counts)
{
    cr_assert(reads(V6, "http"));
    cr_assert_str_eq(found(), "[fd00::1]:1");
    cr_assert(reads(V6 "," V4, "http"));
    cr_assert_str_eq(found(), "10.0.0.1:8000 10.0.0.3:8000 10.0.0.5:8000");
}

Test(node_kube_slices, what_is_no_list_is_none)
{
    static const char *const bad[] = {"", "[]", "{}",
                                      "{\"kind\":\"Status\",\"code\":403}",
                                      "{\"kind\":\"EndpointSliceList\""};
    static const char *const odd[] = {
        "{\"kind\":\"EndpointSliceList\"}",
        "{\"kind\":\"EndpointSliceList\",\"items\":{}}",
        "{\"kind\":\"EndpointSliceList\",\"metadata\":7,\"items\":[7,null,{"
        "\"endpoints\":[7,{\"addresses\":[7]}],\"ports\":[{\"name\":\"http\","
        "\"port\":70000}]}]}"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_not(kube_slices_read(slice_of(bad[i]), SLICE("http"), &list));
    }
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        cr_assert(kube_slices_read(slice_of(odd[i]), SLICE("80"), &list));
        cr_assert_eq(list.count, 0);
        cr_assert_str_eq(list.version, "");
    }
}

Test(node_kube_slices, more_than_there_is_room_for_is_cut)
{
    size_t size = 64 * (WORKERS_MAX + 2) + 256;
    char *text = malloc(size);
    size_t len = (size_t)snprintf(
        text, size,
        "{\"kind\":\"EndpointSliceList\",\"items\":[{\"endpoints\":[");

    for (unsigned i = 0; i <= WORKERS_MAX; i++) {
        len += (size_t)snprintf(text + len, size - len,
                                "%s{\"addresses\":[\"10.1.%u.%u\"]}",
                                i != 0 ? "," : "", i / 250, i % 250 + 1);
    }
    len += (size_t)snprintf(text + len, size - len, "]}]}");
    cr_assert(kube_slices_read((struct slice){text, len}, SLICE("80"), &list));
    cr_assert_eq(list.count, WORKERS_MAX);
    cr_assert(list.cut);
    free(text);
}

Test(node_kube_slices, an_event_says_whether_to_list_again)
{
    char version[KUBE_VERSION_MAX] = "17";

#define OBJECT                                                              \
    "\"object\":{\"kind\":\"EndpointSlice\",\"endpoints\":[{\"metadata\":{" \
    "\"resourceVersion\":\"9\"}}],\"metadata\":{\"name\":\"x\","            \
    "\"resourceVersion\":\"18\"}}"
    cr_assert_eq(
        kube_event_read(SLICE("{\"type\":\"BOOKMARK\"," OBJECT "}"), version),
        KUBE_BOOKMARK);
    cr_assert_str_eq(version, "18");
    cr_assert_eq(
        kube_event_read(SLICE("{" OBJECT ",\"type\":\"ADDED\"}"), version),
        KUBE_CHANGED);
    cr_assert_eq(kube_event_read(SLICE("{\"type\":\"MODIFIED\"}"), version),
                 KUBE_CHANGED);
    cr_assert_eq(kube_event_read(SLICE("{\"type\":\"DELETED\"}"), version),
                 KUBE_CHANGED);
    cr_assert_eq(kube_event_read(SLICE("{\"type\":\"ERROR\",\"object\":{"
                                       "\"kind\":\"Status\",\"code\":410}}"),
                                 version),
                 KUBE_GONE);
    cr_assert_eq(kube_event_read(SLICE("{\"type\":7}"), version), KUBE_GONE);
    cr_assert_eq(kube_event_read(SLICE("{\"type\":\"ADDED\""), version),
                 KUBE_GONE);
    cr_assert_eq(kube_event_read(SLICE(""), version), KUBE_GONE);
    cr_assert_str_eq(version, "18");
}
