/* `kvasir`: finds the command and hands over the rest of the arguments. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "index/base/slice.h"
#include "node/cli/cmd_internal.h"
#include "node/text/typo.h"
#include "storage/storage.h"

struct command {
    const char *name;
    int (*run)(char *const *argv);
    const char *purpose;
};

static const struct command commands[] = {
    {"serve", cmd_serve, "run a node in front of LLM engines"},
    {"status", cmd_status, "show the state of a running node"},
    {"top", cmd_top, "show what a running node does, live"},
    {"explain", cmd_explain, "show where a request would go, and why"},
    {"check", cmd_check, "check a configuration and show the result"},
    {"doctor", cmd_doctor, "try the workers, and say what is missing"},
    {"key", cmd_key, "make a key for a client"},
    {"snapshot", cmd_snapshot, "inspect the snapshots in a data directory"},
    {"render", cmd_render, "show the text a chat template makes of a request"},
    {"route-test", cmd_route_test,
     "show which rule of a content.file chooses each request's model"},
    {"tokenize", cmd_tokenize, "turn text into a model's token ids, and back"},
    {"engine", cmd_engine, "run a stand-in engine to try things on"},
    {"replay", cmd_replay, "play a trace through simulated nodes and engines"},
    {"plan", cmd_plan,
     "say how many engines a service needs, and what they cost"},
};

#define COMMANDS_COUNT (sizeof commands / sizeof commands[0])

static int
print_help(FILE *to, int code)
{
    (void)fprintf(to, "usage: kvasir COMMAND [OPTIONS]\n"
                      "\n"
                      "Routes LLM requests to the engine that already holds "
                      "their prefix.\n"
                      "\n");
    for (size_t i = 0; i < COMMANDS_COUNT; i++) {
        (void)fprintf(to, "  %-10s %s\n", commands[i].name,
                      commands[i].purpose);
    }
    (void)fprintf(to, "\n"
                      "`kvasir COMMAND --help` describes a command, "
                      "`kvasir --version` the program.\n"
                      "Exit codes: 0 success, 1 failure while running, 2 bad "
                      "usage or configuration.\n");
    return fflush(to) == 0 ? code : CMD_FAILED;
}

static int
print_version(void)
{
    const char *commit = cmd_commit;
    bool known = commit[0] != '\0';

    return printf("kvasir " KVASIR_VERSION "%s%s%s\n", known ? " (" : "",
                  commit, known ? ")" : "") > 0 &&
                   fflush(stdout) == 0
               ? CMD_FINE
               : CMD_FAILED;
}

static int
unknown(const char *name)
{
    struct typo typo = {.best = NULL};

    for (size_t i = 0; i < COMMANDS_COUNT; i++) {
        typo_offer(&typo, slice_of(name), commands[i].name);
    }
    (void)fprintf(stderr, "kvasir: unknown %s %s%s%s%s (see kvasir --help)\n",
                  name[0] == '-' ? "option" : "command", name,
                  typo.best != NULL ? ", did you mean " : "",
                  typo.best != NULL ? typo.best : "",
                  typo.best != NULL ? "?" : "");
    return CMD_USAGE;
}

/* A number of these that was closed would be the next file's or connection's,
 * and lines of the log would go there. What is opened in its place fails when
 * it is used, as a closed one does. */
static void
hold_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        }
    }
}

int
main(int argc, char *argv[])
{
    hold_standard_descriptors();
    if (argc < 2) {
        return print_help(stderr, CMD_USAGE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        return print_help(stdout, CMD_FINE);
    }
    if (strcmp(argv[1], "--version") == 0) {
        return print_version();
    }
    if (strcmp(argv[1], STORAGE_KEEPER_COMMAND) == 0) { /* for `serve` alone */
        return storage_keeper_main(argv + 2);
    }
    for (size_t i = 0; i < COMMANDS_COUNT; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argv + 2);
        }
    }
    return unknown(argv[1]);
}
