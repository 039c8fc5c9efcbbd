/* The settings that a fleet has in tests: the defaults of the configuration. */
#ifndef TESTS_UNIT_NODE_FLEET_FLEET_SETTINGS_H
#define TESTS_UNIT_NODE_FLEET_FLEET_SETTINGS_H

#include "node/fleet/fleet.h"

static inline struct fleet_config
fleet_settings(void)
{
    struct config config;

    config_init(&config);
    return (struct fleet_config){.health = config.health,
                                 .breaker = config.breaker,
                                 .resolve_interval_ms = 30000,
                                 .deny = config.workers_deny,
                                 .seed = 1};
}

#endif
