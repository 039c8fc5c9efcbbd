/* The port of the mesh, and news of its certificate and secret. */
#include <time.h>

#include "mesh/link_wire_internal.h"

#define BACKLOG     128
#define SOON_S      INT64_C(1209600) /* two weeks before the end */
#define SAY_AGAIN_S INT64_C(43200)

static void
on_connection(uv_stream_t *listener, int status)
{
    struct mesh_link *link = listener->data;

    if (status == 0 && !link->closing) {
        wire_accept(link, listener);
    }
}

/* Learns which port was bound, as the configured port may be 0. */
static int
learn_port(struct mesh_link *link)
{
    struct sockaddr_storage bound;
    char address[MESH_ADDRESS_MAX];
    int size = sizeof bound;
    int rc = uv_tcp_getsockname(&link->port, (struct sockaddr *)&bound, &size);

    if (rc == 0 && link_address_port(link->address) == 0) {
        link_address_of_sockaddr(&bound, address);
        link_address_with_port(link->address, link_address_port(address));
    }
    return rc;
}

int
port_open(struct mesh_link *link, const char *listen)
{
    struct sockaddr_storage address;
    int rc = uv_tcp_init(link->loop, &link->port);

    if (rc != 0) {
        return rc;
    }
    link->port.data = link;
    link->handles++;
    link->port_is_open = true;
    link->accepts = true;
    link_address_to_sockaddr(listen, &address);
    if ((rc = uv_tcp_bind(&link->port, (struct sockaddr *)&address, 0)) == 0 &&
        (rc = uv_listen((uv_stream_t *)&link->port, BACKLOG, on_connection)) ==
            0) {
        rc = learn_port(link);
    }
    return rc;
}

static void
tell(struct mesh_link *link, enum mesh_certificate what, const char *why)
{
    link->sink.certificate(
        link->sink.context, what,
        link->tls ? tls_files_expiry(link->tls_files) : INT64_MAX, why);
}

/* Tells the owner that the certificate ends within SOON_S or has ended, once in
 * SAY_AGAIN_S. */
static void
tell_expiry(struct mesh_link *link)
{
    int64_t now_s = time(NULL);
    int64_t left_s = tls_files_expiry(link->tls_files) - now_s;

    if (left_s > SOON_S || now_s < link->expiry_say_s) {
        return;
    }
    link->expiry_say_s = now_s + SAY_AGAIN_S;
    tell(link, left_s > 0 ? MESH_CERTIFICATE_ENDS : MESH_CERTIFICATE_ENDED, "");
}

static void
look_at_files(struct mesh_link *link)
{
    const char *why = "";

    switch (tls_files_look(link->tls_files, &why)) {
    case TLS_SAME:
        break;
    case TLS_LOADED:
        link->expiry_say_s = 0;
        tell(link, MESH_CERTIFICATE_LOADED, "");
        break;
    case TLS_BAD:
        tell(link, MESH_CERTIFICATE_BAD, why);
        break;
    }
    tell_expiry(link);
}

void
port_tick(struct mesh_link *link)
{
    const char *why;

    if (link->tls) {
        look_at_files(link);
    }
    if (link->secret &&
        secrets_read(&link->secrets, link->secret_path, &why) != 0) {
        tell(link, MESH_SECRET_BAD, why);
    }
    if (!link->accepts) { /* there was no memory for a connection */
        wire_accept(link, (uv_stream_t *)&link->port);
    }
}
