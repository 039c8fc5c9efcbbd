/* Errors of a Redis, by their first word. */
#include <criterion/criterion.h>

#include "node/redis/redis_refusal.h"

static enum redis_refusal
of(const char *said)
{
    return redis_refusal_of(slice_of(said));
}

Test(node_redis_refusal, an_error_is_known_by_its_first_word)
{
    cr_expect_eq(of("OOM command not allowed when used memory > 'maxmemory'."),
                 REDIS_FULL);
    cr_expect_eq(of("READONLY You can't write against a read only replica."),
                 REDIS_READ_ONLY);
    cr_expect_eq(of("NOAUTH Authentication required."), REDIS_PASSWORD);
    cr_expect_eq(of("WRONGPASS invalid username-password pair"),
                 REDIS_PASSWORD);
    cr_expect_eq(of("NOPERM this user has no permissions"), REDIS_RIGHTS);
    cr_expect_eq(of("OOM"), REDIS_FULL);
}

Test(node_redis_refusal, what_is_not_known_is_another)
{
    const char *const others[] = {"",
                                  " ",
                                  "ERR OOM",
                                  "OOMPH",
                                  "OO",
                                  "oom x",
                                  "MISCONF Redis cannot save",
                                  "MOVED 1 h:1"};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        cr_expect_eq(of(others[i]), REDIS_OTHER, "%s", others[i]);
    }
}

Test(node_redis_refusal, each_has_words_of_its_own)
{
    for (int i = 0; i < REDIS_REFUSALS; i++) {
        cr_expect_neq(redis_refusal_name((enum redis_refusal)i)[0], '\0');
        for (int j = 0; j < i; j++) {
            enum redis_refusal a = (enum redis_refusal)i;
            enum redis_refusal b = (enum redis_refusal)j;
            cr_expect_str_neq(redis_refusal_name(a), redis_refusal_name(b));
            cr_expect_str_neq(redis_refusal_why(a), redis_refusal_why(b));
            cr_expect_str_neq(redis_refusal_hint(a), redis_refusal_hint(b));
        }
    }
}
