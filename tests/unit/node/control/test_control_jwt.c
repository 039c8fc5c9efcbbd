/* When the keys of tokens are asked for again. */
#include <criterion/criterion.h>
#include <string.h>
#include <uv.h>

#include "index/base/role.h"
#include "node/control/control_jwt.h"
#include "tests/unit/failing_alloc.h"

static struct config config;
static struct node_shared node = {.config = &config};

Test(node_control_jwt, a_call_that_could_not_begin_is_made_soon)
{
    struct control_jwt jwt;
    uv_loop_t loop;

    role_is_control();
    memcpy(config.jwt.jwks, "https://127.0.0.1:1/keys", 25);
    config.jwt.refresh_ms = 300000;
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(control_jwt_start(&jwt, &node, &loop), 0);
    (void)failing_alloc_after(0);
    control_jwt_look(&jwt, 1);
    failing_alloc_stop();
    cr_assert_null(jwt.call);
    cr_assert_eq(jwt.failures, 1);
    control_jwt_look(&jwt, CONTROL_JWT_AGAIN_US);
    cr_assert_null(jwt.call, "too soon");
    control_jwt_look(&jwt, CONTROL_JWT_AGAIN_US + 1);
    cr_assert_not_null(jwt.call);
    control_jwt_stop(&jwt);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
}
