/* The keys of the mesh: what follows from them, and what contradicts. */
#include "node/config/config_mesh.h"

#include <stdio.h>
#include <string.h>

#include "node/config/config_access.h"
#include "node/config/config_error_internal.h"

#define MESH_PORT 7946U

/* The four keys of TLS. */
struct tls_key {
    const char *name;
    const char *value;
};

#define TLS_KEYS  4
#define TLS_FILES 3 /* the first ones */

static void
list_tls(const struct config_mesh *mesh, struct tls_key keys[TLS_KEYS])
{
    keys[0] = (struct tls_key){"mesh.tls_ca", mesh->tls_ca};
    keys[1] = (struct tls_key){"mesh.tls_cert", mesh->tls_cert};
    keys[2] = (struct tls_key){"mesh.tls_key", mesh->tls_key};
    keys[3] = (struct tls_key){"mesh.tls_server_name", mesh->tls_server_name};
}

bool
config_mesh_tls(const struct config_mesh *mesh)
{
    return mesh->tls_ca[0] != '\0';
}

void
config_mesh_complete(struct config_mesh *mesh)
{
    bool apart = config_mesh_tls(mesh) || mesh->insecure != 0 ||
                 mesh->secret_file[0] != '\0';

    if (mesh->join.count != 0 && mesh->listen.host[0] == '\0' && !apart) {
        mesh->listen = (struct url){.port = MESH_PORT};
        (void)snprintf(mesh->listen.host, sizeof mesh->listen.host,
                       "127.0.0.1");
    }
}

static bool
is_wildcard(const struct url *url)
{
    return strcmp(url->host, "0.0.0.0") == 0 || strcmp(url->host, "::") == 0;
}

static void
check_tls(const struct config_mesh *mesh, struct config_errors *errors)
{
    struct tls_key keys[TLS_KEYS];
    uint32_t given = 0;

    list_tls(mesh, keys);
    for (uint32_t i = 0; i < TLS_KEYS; i++) {
        given += keys[i].value[0] != '\0';
    }
    if (given != 0 && mesh->secret_file[0] != '\0') {
        config_fault(errors, "mesh.secret_file",
                     "takes the place of mesh.tls_*: give one of them");
    }
    for (uint32_t i = 0; given != 0 && i < TLS_KEYS; i++) {
        if (keys[i].value[0] == '\0') {
            config_fault(errors, keys[i].name,
                         "missing: TLS needs tls_ca, tls_cert, tls_key and "
                         "tls_server_name");
        }
    }
}

bool
config_mesh_lacks_listen(const struct config_mesh *mesh)
{
    return mesh->join.count != 0 && mesh->listen.host[0] == '\0';
}

/* Where this node can be reached by others. */
static void
check_addresses(const struct config_mesh *mesh, struct config_errors *errors)
{
    bool advertised = mesh->advertise.host[0] != '\0';

    if (config_mesh_lacks_listen(mesh) && !mesh->listen_later) {
        config_fault(
            errors, "mesh.listen",
            "missing: nodes on other machines must reach this one, so it "
            "needs this node's IP:PORT (or 0.0.0.0:PORT and mesh.advertise); "
            "where nodes share a file, --mesh IP:PORT says it");
    }
    if (advertised && mesh->listen.host[0] == '\0') {
        config_fault(errors, "mesh.advertise", "needs mesh.listen, an IP:PORT");
    } else if (advertised && is_wildcard(&mesh->advertise)) {
        config_fault(
            errors, "mesh.advertise",
            "expected an address of this node that others reach, not that "
            "of all interfaces");
    } else if (!advertised && is_wildcard(&mesh->listen)) {
        config_fault(errors, "mesh.listen",
                     "listens on all interfaces, so others cannot know where: "
                     "expected mesh.advertise, this node's IP:PORT");
    }
    if (mesh->listen.host[0] != '\0' &&
        !config_is_loopback(mesh->listen.host) && !config_mesh_tls(mesh) &&
        mesh->insecure == 0 && mesh->secret_file[0] == '\0') {
        config_fault(
            errors, "mesh.listen",
            "without TLS, whoever reaches the mesh's port can join and "
            "read: expected mesh.tls_*, mesh.secret_file, an address of "
            "loopback, or mesh.insecure: true");
    }
}

void
config_mesh_check(const struct config_mesh *mesh, struct config_errors *errors)
{
    const struct url *resolver = &mesh->resolver;

    check_tls(mesh, errors);
    check_addresses(mesh, errors);
    if (resolver->host[0] != '\0' && resolver->port == 0) {
        config_fault(errors, "mesh.resolver",
                     "expected IP:PORT, port 1 to 65535");
    }
}

/* As a node reads them when it opens its port. 0 where it has no such files, or
 * one is a pipe. */
static int
read_files(const struct config_mesh *mesh, const char **why, const char **doubt)
{
    bool tls = config_mesh_tls(mesh);
    const struct mesh_link_tls files = {.ca = mesh->tls_ca,
                                        .cert = mesh->tls_cert,
                                        .key = mesh->tls_key,
                                        .server_name = mesh->tls_server_name};

    *doubt = NULL;
    if ((!tls && mesh->secret_file[0] == '\0') || config_is_pipe(files.ca) ||
        config_is_pipe(files.cert) || config_is_pipe(files.key) ||
        config_is_pipe(mesh->secret_file)) {
        return 0;
    }
    return mesh_link_read_files(tls ? &files : NULL, mesh->secret_file, why,
                                doubt);
}

static void
check_contents(const struct config_mesh *mesh, struct config_errors *errors)
{
    const char *why;
    const char *doubt;

    if (read_files(mesh, &why, &doubt) != 0) {
        config_fault(errors,
                     config_mesh_tls(mesh)
                         ? "mesh.tls_ca, mesh.tls_cert, mesh.tls_key"
                         : "mesh.secret_file",
                     "%s", why != NULL ? why : "out of memory");
    }
}

const char *
config_mesh_doubt(const struct config_mesh *mesh)
{
    const char *why;
    const char *doubt;

    return read_files(mesh, &why, &doubt) == 0 ? doubt : NULL;
}

void
config_mesh_files(const struct config_mesh *mesh, struct config_errors *errors)
{
    struct tls_key keys[TLS_KEYS];
    uint32_t before = errors->count;

    list_tls(mesh, keys);
    for (uint32_t i = 0; i < TLS_FILES; i++) {
        config_check_file(keys[i].name, keys[i].value, errors);
    }
    config_check_file("mesh.secret_file", mesh->secret_file, errors);
    if (errors->count == before) {
        check_contents(mesh, errors);
    }
}
