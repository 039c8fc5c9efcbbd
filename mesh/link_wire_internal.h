/*
 * Connections between nodes, on the loop, with TLS or without.
 */
#ifndef MESH_LINK_WIRE_INTERNAL_H
#define MESH_LINK_WIRE_INTERNAL_H

#include "mesh/link_internal.h"

/* Those in use, those that are being closed, and those that shake hands. */
#define LINK_WIRES_PER_INLET 2U

struct wire;

/* Dials a numeric address for an outlet, which is told: outlet_opened() or
 * outlet_lost(), later. NULL: it cannot be dialled. */
struct wire *wire_dial(struct mesh_link *link, const char *address,
                       struct outlet *outlet) MUST_CHECK;

/* Takes what waits at the listener: it becomes an inlet, or is refused. */
void wire_accept(struct mesh_link *link, uv_stream_t *listener);

/* Of an outlet that was opened and not lost, one at a time: outlet_wrote() or
 * outlet_lost() follows. The message is the wire's until then. */
void wire_send(struct wire *wire, struct message *msg);

/* Nothing more is told to an outlet; an inlet is lost. Frees itself later. */
void wire_close(struct wire *wire);

/* The inbox has room again. */
void wire_resume(struct wire *wire);

/* Lets time pass: a handshake has hello_ms. */
void wire_tick(struct wire *wire, uint64_t now_us);

/* All of a link. */
void wires_resume(struct mesh_link *link);
void wires_tick(struct mesh_link *link, uint64_t now_us);
void wires_close(struct mesh_link *link);

/* link_outlet.c: of its wire. */
void outlet_opened(struct outlet *outlet);
void outlet_lost(struct outlet *outlet);
void outlet_wrote(struct outlet *outlet, struct message *msg);

/* link_inlet.c: of an inbound wire. The number of its inlet, 0: too many. */
uint32_t inlet_opened(struct mesh_link *link, struct wire *wire,
                      const char *from) MUST_CHECK;
void inlet_lost(struct mesh_link *link, uint32_t pipe);
bool inlet_has_room(struct mesh_link *link) MUST_CHECK;
void inlet_put(struct mesh_link *link, struct message *msg);

/* link_port.c */

/* Listens at a numeric address: 0 or -errno. */
int port_open(struct mesh_link *link, const char *listen) MUST_CHECK;

/* Lets time pass: certificates are read again, and their end is told. */
void port_tick(struct mesh_link *link);

#endif
