/* A configuration at its defaults, and the faults that it was told. */
#ifndef TESTS_UNIT_NODE_CONFIG_CONFIG_RIG_H
#define TESTS_UNIT_NODE_CONFIG_CONFIG_RIG_H

#include <criterion/criterion.h>

#include "node/config/config.h"

static struct config config;
static struct config_errors errors;

static inline const char *
told(void)
{
    buf_add(&errors.text, "", 1);
    errors.text.len--;
    return errors.text.ptr;
}

static inline void
setup(void)
{
    config_init(&config);
    config_errors_init(&errors);
}

static inline void
teardown(void)
{
    config_fini(&config);
    config_errors_fini(&errors);
}

#endif
