/*
 * What this process may do to its machine from here on, and what it starts later.
 *
 * Files (Landlock): they are written, made, renamed and removed below one folder
 * alone, and no program is run but this one, and what is in the folder of the C
 * library's loader. What may be read is not bounded further: names are looked up,
 * certificates and models read wherever they are.
 * Calls (seccomp): those that no router needs and that attacks on a kernel or on
 * other processes begin with fail with EPERM: ptrace, mount, bpf, keys, modules,
 * namespaces, io_uring and the like; and any of another architecture.
 *
 * Nothing takes it back. Each thread and program that is started later has the
 * same bounds; a thread that runs already has none, so this comes before all of
 * them. Programs get no privileges by set-user-ID from here on (no_new_privs).
 * Other processes' descriptors in /proc cannot be seen any more.
 *
 * Role: shell. Owns: nothing. Thread: the only one. Limits: none. Errors: what
 * the kernel does not have is told, and not done. Source: landlock(7),
 * seccomp(2).
 */
#ifndef NODE_CONFINE_H
#define NODE_CONFINE_H

#include <stdbool.h>

struct confined {
    bool files;
    bool calls;
    const char *why; /* static: why not both; "" */
};

/* What the kernel has. */
void confine_look(struct confined *out);

/* folder: where files may be written; "": nowhere. It must exist. */
void confine(const char *folder, struct confined *out);

/* "files and calls", "files", "calls", "nothing". */
const char *confined_name(const struct confined *confined);

#endif
