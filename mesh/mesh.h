/*
 * The door of mesh/: where others may be, who is alive, and who owns what.
 *
 * Discovery (discover.h) looks for others, the membership (member.h) knows who
 * is there, its messages travel as bytes (member_codec.h), and from who is
 * there follows who reads a worker's events (owner.h). Those are pure: no
 * clock, socket, thread or randomness inside. Links (link.h) carry the bytes,
 * on the control loop.
 */
#ifndef MESH_MESH_H
#define MESH_MESH_H

#include "mesh/cluster.h"      /* IWYU pragma: export */
#include "mesh/discover.h"     /* IWYU pragma: export */
#include "mesh/frame.h"        /* IWYU pragma: export */
#include "mesh/link.h"         /* IWYU pragma: export */
#include "mesh/member.h"       /* IWYU pragma: export */
#include "mesh/member_codec.h" /* IWYU pragma: export */
#include "mesh/owner.h"        /* IWYU pragma: export */

#endif
