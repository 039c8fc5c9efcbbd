/*
 * What child processes that read or write files for a node share: how they
 * start, and how they exchange bytes with the node over a pair of sockets.
 *
 * Role: shell, private to storage. Owns: nothing. Thread: any.
 */
#ifndef STORAGE_CHILD_INTERNAL_H
#define STORAGE_CHILD_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* In the child: a fatal signal ends it silently and without a core file. */
void storage_child_prepare(void);

/* Makes two connected sockets, which no executed program inherits. 0, or -1
 * with errno. */
int storage_child_sockets(int ends[2]);

/* Sends all bytes. False: the other end is gone, or bytes cannot be read. */
bool storage_child_send(int fd, const void *bytes, size_t size);
/* Receives all bytes. False: the other end is gone. */
bool storage_child_receive(int fd, void *bytes, size_t size);

/* Waits for the child's end. Returns the signal that killed it; 0: none did. */
int storage_child_reap(pid_t child);

#endif
