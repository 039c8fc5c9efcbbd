/*
 * What the service manager is told (systemd's notify protocol): that the node is
 * ready, reads its configuration again, or ends, and that its threads are alive.
 * The manager names a datagram socket in NOTIFY_SOCKET, and in WATCHDOG_USEC how
 * long it waits for a sign of life: some seconds at least, as a lane that rests
 * turns four times a second. Without these nothing is said.
 *
 * Role: shell. Owns: its socket. Thread: control. Limits: none; a message that
 * the manager does not take is lost. Errors: none, a line in the log: the node
 * serves on, and the manager judges by itself.
 */
#ifndef NODE_NOTIFY_INTERNAL_H
#define NODE_NOTIFY_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/role.h"

struct notify {
    int fd;             /* -1: nobody is told */
    uint32_t period_ms; /* signs of life that the manager waits for; 0: none */
};

/* environment: ends with NULL; pid: of this process. */
void notify_open(struct notify *notify, char *const *environment, int64_t pid)
    ON_CONTROL;

void notify_close(struct notify *notify) ON_CONTROL;

/* It serves, for the first time or with another configuration. */
void notify_ready(const struct notify *notify) ON_CONTROL;

/* It reads its configuration again; notify_ready() follows. */
void notify_reloading(const struct notify *notify, uint64_t now_us) ON_CONTROL;

/* It takes nothing new, and ends when what runs has ended. */
void notify_stopping(const struct notify *notify) ON_CONTROL;

/* A sign of life. */
void notify_alive(const struct notify *notify) ON_CONTROL;

#endif
