#include <criterion/criterion.h>

#include <string.h>

#include "node/text/ranges.h"
#include "node/text/url.h"

static struct ranges ranges;

/* The range of a host's address, as text; "": none. */
static const char *
found(const char *host)
{
    static char text[RANGE_TEXT_MAX];
    struct url url = {.port = 1};
    struct sockaddr_storage address;
    const struct range *by_name = ranges_find_host(&ranges, host);

    (void)strcpy(url.host, host);
    if (url_sockaddr(&url, &address) == 0) {
        cr_assert_eq(ranges_find(&ranges, (const struct sockaddr *)&address),
                     by_name);
    }
    return by_name != NULL ? range_text(by_name, text) : "";
}

Test(node_ranges, an_address_is_found_in_its_range)
{
    cr_assert_null(ranges_parse(
        SLICE("169.254.0.0/16  fe80::/10 10.1.2.3\t10.128.0.0/9"), &ranges));
    cr_assert_str_eq(found("169.254.169.254"), "169.254.0.0/16");
    cr_assert_str_eq(found("169.253.169.254"), "");
    cr_assert_str_eq(found("fe80::1"), "fe80::/10");
    cr_assert_str_eq(found("febf::1"), "fe80::/10");
    cr_assert_str_eq(found("fec0::1"), "");
    cr_assert_str_eq(found("10.1.2.3"), "10.1.2.3/32");
    cr_assert_str_eq(found("10.1.2.4"), "");
    cr_assert_str_eq(found("10.255.0.1"), "10.128.0.0/9");
    cr_assert_str_eq(found("name.example"), "");
}

Test(node_ranges, a_mapped_address_is_the_address)
{
    cr_assert_null(ranges_parse(SLICE("169.254.0.0/16"), &ranges));
    cr_assert_str_eq(found("::ffff:169.254.169.254"), "169.254.0.0/16");
    cr_assert_null(ranges_parse(SLICE("::/0"), &ranges));
    cr_assert_str_eq(found("1.2.3.4"), "::/0");
    cr_assert_null(ranges_parse(SLICE("0.0.0.0/0"), &ranges));
    cr_assert_str_eq(found("1.2.3.4"), "0.0.0.0/0");
    cr_assert_str_eq(found("2001:db8::1"), "");
}

Test(node_ranges, what_is_no_range_is_refused)
{
    static const char *const bad[] = {"",
                                      "10.0.0.0/33",
                                      "10.0.0.1/8",
                                      "fe80::1/64",
                                      "host/8",
                                      "10.0.0.0/",
                                      "10.0.0.0/8x",
                                      "none none",
                                      "10.0.0.0/8,fe80::/10",
                                      "1.2.3.4 no",
                                      "::/129",
                                      "none 1.2.3.4"};

    ranges.count = 5;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_not_null(ranges_parse(slice_of(bad[i]), &ranges), "%s",
                           bad[i]);
        cr_assert_eq(ranges.count, 5);
    }
    cr_assert_null(ranges_parse(SLICE(" none "), &ranges));
    cr_assert_eq(ranges.count, 0);
}
