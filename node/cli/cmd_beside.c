/* Commands that are programs of their own: chaos/ stands above node/, so they
 * are found beside this one and run in its place. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "index/base/check.h"
#include "node/cli/cmd_internal.h"

#define PATH_MAX_BYTES 4096
#define ARGUMENTS_MAX  4096

/* Where they may be, from the folder that this program is in: beside it, in a
 * build tree, installed. */
static const char *const places[] = {
    "",
    "../chaos/",
    "../libexec/kvasir/",
};

/* The folder of this executable with a slash, or -errno. */
static int
own_folder(char *out, size_t size)
{
    ssize_t len = readlink("/proc/self/exe", out, size - 1);

    if (len < 0) {
        return -errno;
    }
    out[len] = '\0';
    char *slash = strrchr(out, '/');
    CHECK(slash != NULL);
    slash[1] = '\0';
    return 0;
}

/* Becomes kvasir-NAME, with first (NULL: nothing) before argv. */
static int
become(const char *name, char *first, char *const *argv)
{
    char folder[PATH_MAX_BYTES];
    char path[PATH_MAX_BYTES + 64];
    char *arguments[ARGUMENTS_MAX];
    char reason[128];
    size_t argc = 0;
    size_t at = 0;

    while (argv[argc] != NULL) {
        argc++;
    }
    if (argc > ARGUMENTS_MAX - 3) {
        (void)fprintf(stderr, "kvasir %s: too many arguments\n", name);
        return CMD_USAGE;
    }
    if (own_folder(folder, sizeof folder) != 0) {
        (void)fprintf(stderr, "kvasir %s: cannot read /proc/self/exe\n", name);
        return CMD_FAILED;
    }
    arguments[at++] = path;
    if (first != NULL) {
        arguments[at++] = first;
    }
    memcpy(arguments + at, argv, (argc + 1) * sizeof argv[0]);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%skvasir-%s", folder, places[i],
                       name);
        (void)execv(path, arguments);
        if (errno != ENOENT && errno != ENOTDIR) {
            (void)fprintf(stderr, "kvasir %s: cannot run %s: %s\n", name, path,
                          uv_strerror_r(-errno, reason, sizeof reason));
            return CMD_FAILED;
        }
    }
    (void)fprintf(stderr,
                  "kvasir %s: kvasir-%s is not installed: looked in %s "
                  "and %s../libexec/kvasir\n",
                  name, name, folder, folder);
    return CMD_FAILED;
}

int
cmd_engine(char *const *argv)
{
    return become("engine", NULL, argv);
}

int
cmd_replay(char *const *argv)
{
    return become("replay", NULL, argv);
}

int
cmd_plan(char *const *argv)
{
    return become("plan", NULL, argv);
}

int
cmd_serve_wide(char *const *argv)
{
    char serve[] = "serve";

    return become("wide", serve, argv);
}
