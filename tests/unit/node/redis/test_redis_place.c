/* Where a Redis is, and its file. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/redis/redis_place.h"

#define SECRET "secret 0123456789abcdef\n"
#define TWICE  "secret 0123456789abcdef\nsecret 0123456789abcdef\n"

Test(node_redis_place, an_address_has_a_host_a_port_and_a_number)
{
    static const struct {
        const char *text;
        const char *host;
        uint16_t port;
        uint32_t database;
        bool tls;
    } good[] = {
        {"redis://h", "h", 6379, 0, false},
        {"redis://h/", "h", 6379, 0, false},
        {"rediss://cache.example:7000/12", "cache.example", 7000, 12, true},
        {"redis://[::1]", "::1", 6379, 0, false},
        {"redis://[::1]:7/3", "::1", 7, 3, false},
        {"redis://10.0.0.1:6380/1023", "10.0.0.1", 6380, 1023, false},
    };
    static const char *const bad[] = {"",
                                      "h:1",
                                      "redis:/h",
                                      "redis://",
                                      "redis://:1",
                                      "redis://h:0",
                                      "redis://h:x",
                                      "redis://h/x",
                                      "redis://h/1024",
                                      "redis://h/-1",
                                      "redis://u:p@h",
                                      "redis://p@h",
                                      "redis://h/0/1",
                                      "unix:///h",
                                      "REDIS://h",
                                      "redis://h:99999"};
    struct redis_place place;
    char text[600] = "redis://";

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_assert_null(redis_place_read(slice_of(good[i].text), &place), "%s",
                       good[i].text);
        cr_expect_str_eq(place.url.host, good[i].host);
        cr_expect_eq(place.url.port, good[i].port);
        cr_expect_eq(place.database, good[i].database);
        cr_expect_eq(place.url.tls, good[i].tls);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_not_null(redis_place_read(slice_of(bad[i]), &place), "%s",
                           bad[i]);
    }
    memset(text + 8, 'h', sizeof(text) - 9);
    text[sizeof(text) - 1] = '\0';
    cr_expect_not_null(redis_place_read(slice_of(text), &place));
}

/* What is wrong with a file of that text, or NULL. */
static const char *
read_file(const char *text, struct redis_secret *secret)
{
    char path[] = "/tmp/kvasir-redis-XXXXXX";
    int fd = mkstemp(path);

    cr_assert(fd >= 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    const char *wrong = redis_secret_read(path, secret);
    cr_assert_eq(close(fd), 0);
    cr_assert_eq(unlink(path), 0);
    return wrong;
}

Test(node_redis_place, a_secret_makes_the_same_everywhere_and_another_another)
{
    struct redis_secret a;
    struct redis_secret b;

    cr_assert_null(read_file("# of all nodes\n\n" SECRET "user me\r\n"
                             "password open sesame \n",
                             &a));
    cr_expect_str_eq(a.user, "me");
    cr_expect_str_eq(a.password, "open sesame");
    cr_assert_null(read_file("secret 0123456789abcdef", &b));
    cr_expect_eq(a.seed, b.seed);
    cr_expect_arr_eq(a.key, b.key, sizeof(a.key));
    cr_expect_str_eq(b.password, "");
    cr_assert_null(read_file("secret 0123456789abcdeg\n", &b));
    cr_expect_neq(a.seed, b.seed);
    cr_expect_arr_neq(a.key, b.key, sizeof(a.key));
    cr_expect_neq(memcmp(&b.seed, b.key, sizeof(b.seed)), 0);
}

Test(node_redis_place, a_file_that_is_wrong_gives_nothing)
{
    static const struct redis_secret none;
    static const char *const bad[] = {
        "",
        "password p\n",
        "secret 0123456789abcde\n",
        TWICE,
        SECRET "word x\n",
        SECRET "user u\n",
        SECRET "password \n",
        "secret\n",
        " secret 0123456789abcdef\n",
    };
    char longer[REDIS_FILE_MAX + 2] = SECRET;
    struct redis_secret secret;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_not_null(read_file(bad[i], &secret), "%s", bad[i]);
        cr_expect_eq(memcmp(&secret, &none, sizeof(none)), 0, "%s", bad[i]);
    }
    memset(longer + strlen(SECRET), '\n', sizeof(longer) - strlen(SECRET) - 1);
    cr_expect_not_null(read_file(longer, &secret));
    cr_expect_not_null(redis_secret_read("/nowhere/at/all", &secret));
}
