/*
 * The commands of `kvasir`, one function each.
 *
 * Role: shell. Each command gets the arguments after its own name, prints its
 * answer to stdout and its faults to stderr, and returns the exit code: 0 fine,
 * 1 failed while running, 2 bad usage or configuration. Each command's `--help`
 * is its manual.
 */
#ifndef NODE_CMD_INTERNAL_H
#define NODE_CMD_INTERNAL_H

enum {
    CMD_FINE = 0,
    CMD_FAILED = 1, /* while running */
    CMD_USAGE = 2,  /* bad usage or configuration */
};

/* The commit of the source, or "" where it is not known. In the program alone:
 * a new one compiles and links nothing else. */
extern const char *const cmd_commit;

/* Says whether a configuration is valid, and which values are in force. */
int cmd_check(char *const *argv);

/* Tries the workers of a configuration. */
int cmd_doctor(char *const *argv);

/* Where the request on stdin would go, and why. */
int cmd_explain(char *const *argv);

/* Makes a client's key, and what a file keeps of it. */
int cmd_key(char *const *argv);

/* The text that a chat template makes of the request on stdin. */
int cmd_render(char *const *argv);

/* Which rule of a content.file chooses the model of each request on stdin. */
int cmd_route_test(char *const *argv);

/* Runs a node until it is told to stop. */
int cmd_serve(char *const *argv);

/* Describes the snapshot from which a node would start. */
int cmd_snapshot(char *const *argv);

/* The state of a running node. */
int cmd_status(char *const *argv);

/* Turns the text on stdin into token ids, or ids into text. */
int cmd_tokenize(char *const *argv);

/* Shows what a running node does, refreshed until the user quits. */
int cmd_top(char *const *argv);

/* Become kvasir-engine, kvasir-replay and kvasir-plan; argv ends in NULL.
 * Return only when that failed. cmd_serve_wide: what was given to kvasir serve,
 * by a program for CONFIG_WORKERS_MAX workers. */
int cmd_engine(char *const *argv);
int cmd_replay(char *const *argv);
int cmd_plan(char *const *argv);
int cmd_serve_wide(char *const *argv);

#endif
