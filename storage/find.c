/*
 * Choosing the newest snapshot that verifies, setting aside what does not.
 */
#include "storage/find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/apart.h"

/* The highest generation below `below`; false: none. */
static bool
next_older(const struct storage_names *names, uint64_t below,
           uint64_t *generation)
{
    bool found = false;

    CHECK(names->count <= STORAGE_FILES_MAX);
    for (uint32_t i = 0; i < names->count; i++) {
        uint64_t g;
        if (storage_file_generation(names->name[i], &g) && g < below &&
            (!found || g > *generation)) {
            *generation = g;
            found = true;
        }
    }
    return found;
}

static bool
is_aside(const char *name)
{
    uint64_t generation;

    return storage_aside_generation(name, &generation);
}

/* Above that of every file, those set aside included: one name is given once,
 * and the first by name stay the oldest. */
static uint64_t
generation_after(const struct storage_names *names)
{
    uint64_t next = 1;

    CHECK(names->count <= STORAGE_FILES_MAX);
    for (uint32_t i = 0; i < names->count; i++) {
        uint64_t g;
        if ((storage_file_generation(names->name[i], &g) ||
             storage_aside_generation(names->name[i], &g)) &&
            g >= next && g < UINT64_MAX) {
            next = g + 1;
        }
    }
    return next;
}

/* Makes room for one more file that is set aside: the oldest are removed, which
 * are the first by name. */
static void
thin_out(struct storage_io *io, const struct storage_limits *limits)
{
    struct storage_names *names = malloc(sizeof(*names));
    uint32_t kept = 0;

    if (names == NULL || io->ops->list(io, names) != STORAGE_OK) {
        free(names);
        return;
    }
    for (uint32_t i = 0; i < names->count; i++) {
        kept += is_aside(names->name[i]);
    }
    for (; kept > limits->aside_max; kept--) {
        char *oldest = NULL;
        for (uint32_t i = 0; i < names->count; i++) {
            char *name = names->name[i];
            if (is_aside(name) &&
                (oldest == NULL || strcmp(name, oldest) < 0)) {
                oldest = name;
            }
        }
        (void)io->ops->remove(io, oldest);
        oldest[0] = '\0';
    }
    free(names);
}

/* A file that can never be read again, unlike one whose disk failed just
 * now. */
static bool
is_bad(enum storage_outcome outcome)
{
    return outcome == STORAGE_E_CORRUPT || outcome == STORAGE_E_FOREIGN ||
           outcome == STORAGE_E_VERSION;
}

enum storage_outcome
storage_set_aside(struct storage_io *io, const struct storage_limits *limits,
                  const char *name)
{
    char to[STORAGE_NAME_MAX + sizeof STORAGE_ASIDE];

    CHECK(strlen(name) < STORAGE_NAME_MAX);
    (void)snprintf(to, sizeof to, "%s%s", name, STORAGE_ASIDE);
    enum storage_outcome rc = io->ops->rename(io, name, to);
    if (rc == STORAGE_OK) {
        thin_out(io, limits);
    }
    return rc;
}

static void
set_aside(struct storage_io *io, const struct storage_limits *limits,
          struct storage_find *find, const struct storage_report *report)
{
    CHECK(report->outcome != STORAGE_OK);
    if (report->outcome == STORAGE_E_EMPTY) { /* a life too short for one */
        (void)io->ops->remove(io, report->file);
        return;
    }
    if (find->refusals++ == 0) {
        find->refused = *report;
    }
    if (is_bad(report->outcome)) {
        (void)storage_set_aside(io, limits, report->file);
    }
}

static void
verify(struct storage_io *io, const char *name, const char *cluster,
       unsigned timeout_s, struct storage_report *report)
{
    if (timeout_s == 0) {
        storage_verify(io, name, cluster, report);
    } else {
        storage_verify_apart(io, name, cluster, timeout_s, report);
    }
}

enum storage_outcome
storage_find(struct storage_io *io, const char *cluster,
             const struct storage_limits *limits, unsigned timeout_s,
             struct storage_find *find)
{
    struct storage_names *names = malloc(sizeof(*names));
    uint64_t generation = 0;

    *find = (struct storage_find){.found = false};
    enum storage_outcome rc =
        names == NULL ? STORAGE_E_MEMORY : io->ops->list(io, names);
    if (rc != STORAGE_OK) {
        free(names);
        return rc;
    }
    find->generation = generation_after(names);
    uint64_t below = UINT64_MAX;
    while (!find->found && next_older(names, below, &generation)) {
        struct storage_report report;
        char name[STORAGE_NAME_MAX];
        storage_file_name(generation, name);
        verify(io, name, cluster, timeout_s, &report);
        if (report.outcome == STORAGE_OK) {
            find->chosen = report;
            find->found = true;
        } else {
            set_aside(io, limits, find, &report);
        }
        below = generation;
    }
    free(names);
    return STORAGE_OK;
}

enum storage_outcome
storage_next_generation(struct storage_io *io, uint64_t *generation)
{
    struct storage_names *names = malloc(sizeof(*names));

    CHECK(generation != NULL);
    enum storage_outcome rc =
        names == NULL ? STORAGE_E_MEMORY : io->ops->list(io, names);
    if (rc == STORAGE_OK) {
        *generation = generation_after(names);
    }
    free(names);
    return rc;
}

enum storage_outcome
storage_newest(struct storage_io *io, uint64_t *below,
               char name[STORAGE_NAME_MAX])
{
    struct storage_names *names = malloc(sizeof(*names));

    CHECK(below != NULL);
    enum storage_outcome rc =
        names == NULL ? STORAGE_E_MEMORY : io->ops->list(io, names);
    if (rc == STORAGE_OK && !next_older(names, *below, below)) {
        rc = STORAGE_E_MISSING;
    }
    if (rc == STORAGE_OK) {
        storage_file_name(*below, name);
    }
    free(names);
    return rc;
}
