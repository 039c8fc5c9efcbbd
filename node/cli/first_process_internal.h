/*
 * The first process of a container gets the children of those that die, and
 * has to wait for them: what programs of scale.command leave behind would stay
 * zombies for as long as the node runs. A node waits for its own children
 * alone, so as the first process it runs below one that waits for all.
 *
 * Role: shell. Owns: nothing. Thread: the only one. Limits: none. Errors: a node
 * that cannot be below another process is the first one.
 */
#ifndef NODE_FIRST_PROCESS_INTERNAL_H
#define NODE_FIRST_PROCESS_INTERNAL_H

/* Goes on in a child, where this is the first process of a container: it passes
 * on what signals a node knows, and ends with the child's exit code. Before any
 * thread runs. */
void first_process_leave(void);

#endif
