/* Bounds for a node, before it opens anything to others. */
#include "node/cli/sandbox_internal.h"

#include "node/base/log.h"
#include "node/base/port_fault.h"
#include "node/config/config_scale.h"

/* Who has our ports cannot be seen from within. */
static void
note_ports(const struct config *config)
{
    const struct url *ports[PORT_FAULTS_MAX] = {&config->listen, &config->admin,
                                                &config->admin_access.metrics,
                                                &config->mesh.listen};

    for (unsigned i = 0; i < PORT_FAULTS_MAX; i++) {
        struct sockaddr_storage address = {0};
        if (ports[i]->port != 0 && url_sockaddr(ports[i], &address) == 0) {
            port_fault_note((const struct sockaddr *)&address);
        }
    }
}

bool
sandbox_begin(const struct config *config, struct confined *out)
{
    *out = (struct confined){.why = ""};
    if (config->sandbox == CONFIG_SANDBOX_OFF) {
        out->why = "sandbox is off";
    } else if (config_scale_runs(&config->scale)) {
        out->why = "programs of scale.command would inherit it";
    } else {
        note_ports(config);
        confine(config->data.dir, out);
    }
    if (config->sandbox == CONFIG_SANDBOX_REQUIRE &&
        !(out->files && out->calls)) {
        LOG_ERROR("sandbox_refused", KV("bounds", confined_name(out)),
                  KV("why", out->why),
                  KV("hint", "sandbox: auto starts the node with what can be "
                             "had"));
        return false;
    }
    return true;
}
