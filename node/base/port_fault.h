/*
 * Why a port could not be opened, for the person who has to mend it: who has it
 * already, as far as this user may see, and what to do.
 *
 * The holder is looked for in /proc/net/tcp and tcp6, where each listening
 * socket has an inode, and in the descriptors of all processes. Those of other
 * users are seen by root alone; of them only the user's number is known.
 *
 * A process that is confined (confine.h) sees no other one's descriptors, so
 * those of the addresses that a node will open are looked for before that.
 *
 * Role: shell, for port_fault_match() core. Owns: what was noted. Thread: that of
 * control; it reads files, so before a node serves. Limits: PORT_FAULTS_MAX noted.
 * Errors: none, what is not known is not said.
 */
#ifndef NODE_PORT_FAULT_H
#define NODE_PORT_FAULT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "index/base/slice.h"

#define PORT_FAULT_TEXT_MAX 96U
#define PORT_FAULTS_MAX     4U

struct port_fault_socket {
    uint64_t inode;
    uint32_t user;
};

/*
 * Whether a line of /proc/net/tcp (of /proc/net/tcp6: wide) is a listener that
 * keeps others from this address, and whose it is. All words of the line are
 * those of the kernel; one that cannot be read matches nothing.
 */
bool port_fault_match(struct slice line, bool wide,
                      const struct sockaddr *address,
                      struct port_fault_socket *out);

/* Notes who has this address, if anybody has. */
void port_fault_note(const struct sockaddr *address);

/* "nginx, pid 4711", "this node", "a process of user 33", or "not known"; into
 * out, PORT_FAULT_TEXT_MAX bytes, which it returns. error: what came of the
 * attempt to open it; "nobody" unless that is -EADDRINUSE. */
const char *port_fault_holder(int error, const struct sockaddr *address,
                              char *out);

/* What to do after that -errno. Static text. */
const char *port_fault_hint(int error);

#endif
