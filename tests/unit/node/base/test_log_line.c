#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <time.h>

#include "node/base/log_line_internal.h"

#define WALL_US UINT64_C(1767323045678901) /* 2026-01-02T03:04:05.678Z */

static char text[LOG_LINE_MAX + 1];

static const char *
format(enum log_format as, const struct log_field *fields, size_t count)
{
    struct log_line line = {.format = as,
                            .level = LOG_LEVEL_WARNING,
                            .wall_us = WALL_US,
                            .fields = fields,
                            .count = count};

    text[log_line_format(&line, text)] = '\0';
    return text;
}

#define LOGFMT(...)                                                      \
    format(LOG_FORMAT_LOGFMT,                                            \
           (const struct log_field[]){LOG_FIELDS(__VA_ARGS__, )},        \
           sizeof(const struct log_field[]){LOG_FIELDS(__VA_ARGS__, )} / \
               sizeof(struct log_field))
#define JSON(...)                                                        \
    format(LOG_FORMAT_JSON,                                              \
           (const struct log_field[]){LOG_FIELDS(__VA_ARGS__, )},        \
           sizeof(const struct log_field[]){LOG_FIELDS(__VA_ARGS__, )} / \
               sizeof(struct log_field))
#define HEAD "2026-01-02T03:04:05.678Z warning "

Test(node_log_line, is_time_level_event_and_fields)
{
    bool yes = true;

    cr_assert_str_eq(LOGFMT("worker_down"), HEAD "worker_down\n");
    cr_assert_str_eq(LOGFMT("worker_down", KV("worker", "gpu-1"), KV("n", -3),
                            KV("size", SIZE_MAX), KV("yes", yes),
                            KV("part", ((struct slice){"abcdef", 3}))),
                     HEAD "worker_down worker=gpu-1 n=-3 "
                          "size=18446744073709551615 yes=true part=abc\n");
}

Test(node_log_line, faults_are_named)
{
    cr_assert_str_eq(LOGFMT("e", KV_FAULT("error", -ECONNREFUSED)),
                     HEAD "e error=ECONNREFUSED\n");
    cr_assert_str_eq(LOGFMT("e", KV_FAULT("error", -4095)),
                     HEAD "e error=EOF\n");
    cr_assert_str_eq(LOGFMT("e", KV_FAULT("error", 0)), HEAD "e error=0\n");
    cr_assert_str_eq(LOGFMT("e", KV_FAULT("error", INT32_MIN)),
                     HEAD "e error=-2147483648\n");
}

Test(node_log_line, values_that_are_not_plain_are_quoted)
{
    cr_assert_str_eq(LOGFMT("e", KV("a", ""), KV("b", "x y"), KV("c", "a=b"),
                            KV("d", "\"\\"), KV("e", "ok:/._-")),
                     HEAD "e a=\"\" b=\"x y\" c=\"a=b\" d=\"\\\"\\\\\" "
                          "e=ok:/._-\n");
}

Test(node_log_line, client_bytes_cannot_forge_a_line)
{
    struct slice evil = SLICE("x\" level=error\n2026 error y\r\t\0\033[2J\xC2"
                              "\x9B\xFF\x7F");

    cr_assert_str_eq(LOGFMT("e", KV("m", evil)),
                     HEAD "e m=\"x\\\" level=error\\n2026 error y\\r\\t\\x00"
                          "\\x1b[2J\\xc2\\x9b\\xff\\x7f\"\n");
    cr_assert_str_eq(JSON("e", KV("m", evil)),
                     "{\"ts\":\"2026-01-02T03:04:05.678Z\","
                     "\"level\":\"warning\",\"event\":\"e\","
                     "\"m\":\"x\\\" level=error\\n2026 error y\\r\\t\\u0000"
                     "\\u001b[2J\xC2\x9B\xEF\xBF\xBD\\u007f\"}\n");
}

Test(node_log_line, json_keeps_the_types)
{
    bool no = false;

    cr_assert_str_eq(
        JSON("e", KV("n", 5), KV("no", no), KV_FAULT("error", -ENOMEM)),
        "{\"ts\":\"2026-01-02T03:04:05.678Z\",\"level\":\"warning\","
        "\"event\":\"e\",\"n\":5,\"no\":false,\"error\":\"ENOMEM\"}\n");
}

Test(node_log_line, counts_come_last)
{
    struct log_field fields[] = {LOG_FIELDS("e", KV("n", 1))};
    struct log_line line = {.level = LOG_LEVEL_INFO,
                            .wall_us = WALL_US,
                            .dropped = 7,
                            .lost = 2,
                            .fields = fields,
                            .count = 2};

    text[log_line_format(&line, text)] = '\0';
    cr_assert_str_eq(text,
                     "2026-01-02T03:04:05.678Z info e n=1 dropped=7 lost=2\n");
}

Test(node_log_line, long_values_are_truncated_and_the_line_is_bounded)
{
    static char zeros[100000]; /* four bytes each once escaped */
    struct slice big = {zeros, sizeof zeros};

    cr_assert_str_eq(strstr(LOGFMT("e", KV("a", big), KV("b", big),
                                   KV("c", big), KV("d", big), KV("z", 1)),
                            " z="),
                     " z=1 omitted=1\n");
    cr_assert_leq(strlen(text), LOG_LINE_MAX);
    cr_assert_not_null(strstr(text, "\\x00...\" b="));

    json_error_t error;
    json_t *json = json_loads(JSON("e", KV("a", big), KV("b", big),
                                   KV("c", big), KV("d", big), KV("z", 1)),
                              JSON_ALLOW_NUL, &error);
    cr_assert_not_null(json, "%s", error.text);
    cr_assert_eq(json_integer_value(json_object_get(json, "omitted")), 1);
    cr_assert_eq(json_integer_value(json_object_get(json, "z")), 1);
    json_decref(json);
}

Test(node_log_line, every_day_of_four_centuries_has_its_date)
{
    struct log_field fields[] = {LOG_FIELDS("e", )};

    for (uint64_t day = 0; day < 146097; day++) {
        time_t at = (time_t)(day * 86400);
        struct log_line line = {
            .wall_us = day * 86400 * 1000000, .fields = fields, .count = 1};
        char want[32];
        struct tm tm;
        (void)gmtime_r(&at, &tm);
        (void)strftime(want, sizeof want, "%Y-%m-%dT", &tm);
        size_t len = log_line_format(&line, text);
        cr_assert(len > 11 && memcmp(text, want, 11) == 0, "%s", want);
    }
}
