/* Credentials of NATS users: what a file must have, and what they sign. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "node/base/nkey.h"

/* RFC 8032's second key, in NATS' letters. */
#define SEED                         \
    "SUAEZTIITMUP7FW2TW3MGRXMCFHA6W" \
    "4KGGPTLK5GETNIZ5XNJ64KN63OVI"

static struct nkey key;
static const char *why;

static int
reads(const char *jwt, const char *seed)
{
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER "
                   "JWT------\n\nkeep it\r\n-----BEGIN USER NKEY "
                   "SEED-----\r\n%s\r\n------END USER NKEY SEED------\n",
                   jwt, seed);
    return nkey_read(slice_of(text), &key, &why);
}

Test(node_nkey, a_file_has_a_jwt_and_a_seed_that_signs)
{
    char signature[NKEY_SIGNED_MAX];

    cr_assert_eq(reads("ey.J.w", SEED), 0, "%s", why);
    cr_expect_str_eq(key.jwt, "ey.J.w");
    cr_assert(nkey_sign(&key, SLICE("\x72"), signature));
    cr_expect_str_eq(signature, "kqAJqfDUyrhyDoILX2QlQKKye1QWUD-Ps3YiI-vbadoI"
                                "WsHkPhWZbkWPNhPQ8R2MOHsurrQwKu6wDSkWErsMAA");
    nkey_wipe(&key);
    cr_expect_eq(key.jwt[0], '\0');
    cr_expect_eq(key.seed[0], 0);
}

Test(node_nkey, a_file_that_lacks_one_is_refused)
{
    static const char *const bad[] = {
        "",        /* none */
        "SUAA",    /* too short */
        "SA" SEED, /* too long */
        "SAAEZTIITMUP7FW2TW3MGRXMCFHA6W"
        "4KGGPTLK5GETNIZ5XNJ64KN63OVI", /* an account's */
        "SUAEZTIITMUP7FW2TW3MGRXMCFHA6W"
        "BKGGPTLK5GETNIZ5XNJ64KN63OVI", /* a letter is wrong */
        "SUAEZTIITMUP7FW2TW3MGRXMCFHA6W"
        "1KGGPTLK5GETNIZ5XNJ64KN63OVI", /* no letter of these */
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_eq(reads("ey.J.w", bad[i]), NKEY_E_BAD, "%s", bad[i]);
        cr_expect_not_null(strstr(why, "seed"));
    }
    cr_expect_eq(reads("", SEED), NKEY_E_BAD);
    cr_expect_not_null(strstr(why, "JWT"));
    cr_expect_eq(nkey_read(SLICE(""), &key, &why), NKEY_E_BAD);
    cr_expect_eq(nkey_load("/nowhere/at.creds", &key, &why), NKEY_E_BAD);
}
