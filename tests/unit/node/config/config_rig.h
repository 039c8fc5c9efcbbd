/* A configuration at its defaults, and the faults that it was told. */
#ifndef TESTS_UNIT_NODE_CONFIG_CONFIG_RIG_H
#define TESTS_UNIT_NODE_CONFIG_CONFIG_RIG_H

#include <criterion/criterion.h>
#include <stdio.h>

#include "node/config/config_schema.h"

static struct config config;
static struct config_errors errors;

static inline const char *
told(void)
{
    buf_add(&errors.text, "", 1);
    errors.text.len--;
    return errors.text.ptr;
}

/* What the key is printed as when a file gives that; or the faults. */
static inline const char *
printed_of(const char *name, const char *yaml)
{
    static char text[8192];
    const struct config_key *key =
        config_schema_find(&config_schema_node, slice_of(name));
    struct buf out;

    config_apply_yaml(&config, "f", slice_of(yaml), &errors);
    config_check(&config, &errors);
    if (errors.count != 0) {
        return told();
    }
    buf_init(&out, sizeof text);
    config_value_print(key, &config, &out);
    (void)snprintf(text, sizeof text, "%.*s", (int)out.len, out.ptr);
    buf_fini(&out);
    return text;
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
