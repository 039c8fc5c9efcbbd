/* A command line for what parses one. */
#ifndef TESTS_UNIT_CHAOS_ARGV_OF_H
#define TESTS_UNIT_CHAOS_ARGV_OF_H

#include <stdio.h>
#include <string.h>

/* Words between blanks, as main() has them. Good until the next call. */
static inline char **
argv_of(const char *words)
{
    enum {
        ARGS_MAX = 32
    };
    static char copy[512];
    static char program[] = "kvasir";
    static char *argv[ARGS_MAX + 1];
    int argc = 0;

    (void)snprintf(copy, sizeof(copy), "%s", words);
    argv[argc++] = program;
    for (char *word = strtok(copy, " "); word != NULL && argc < ARGS_MAX;
         word = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    argv[argc] = NULL;
    return argv;
}

#endif
