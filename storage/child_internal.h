/*
 * What processes that read or write files for another one have in common: how
 * they begin, and how both talk over a socket pair.
 *
 * Role: shell, private to storage. Owns: nothing. Thread: any.
 */
#ifndef STORAGE_CHILD_INTERNAL_H
#define STORAGE_CHILD_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* In the child: it dies of what kills it, silently and without a core. */
void storage_child_prepare(void);

/* Two connected sockets, which no program that is executed inherits. 0, or
 * -1 with errno. */
int storage_child_sockets(int ends[2]);

/* All of it. False: the other end is gone, or bytes cannot be read. */
bool storage_child_send(int fd, const void *bytes, size_t size);
/* All of it. False: the other end is gone. */
bool storage_child_receive(int fd, void *bytes, size_t size);

/* Waits for the child's end. The signal that killed it; 0: none did. */
int storage_child_reap(pid_t child);

#endif
