/*
 * The door of mesh/: where other nodes may be, who is alive, and who owns what.
 *
 * Discovery (discover.h) looks for other nodes. The membership (member.h) knows
 * which of them are alive; member_codec.h turns its messages into bytes. From
 * the living members follows who reads a worker's events (owner.h). All these
 * are pure: no clock, socket, thread or randomness inside. Links (link.h) carry
 * the bytes, on the control loop.
 */
#ifndef MESH_MESH_H
#define MESH_MESH_H

#include "mesh/cluster.h"      /* IWYU pragma: export */
#include "mesh/discover.h"     /* IWYU pragma: export */
#include "mesh/frame.h"        /* IWYU pragma: export */
#include "mesh/island_path.h"  /* IWYU pragma: export */
#include "mesh/link.h"         /* IWYU pragma: export */
#include "mesh/member.h"       /* IWYU pragma: export */
#include "mesh/member_codec.h" /* IWYU pragma: export */
#include "mesh/owner.h"        /* IWYU pragma: export */

#endif
