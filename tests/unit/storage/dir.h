/* A directory of one test, gone with all in it at the test's end. */
#ifndef TESTS_UNIT_STORAGE_DIR_H
#define TESTS_UNIT_STORAGE_DIR_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "index/base/check.h"

struct dir {
    char path[128];
};

static inline struct dir
dir_new(void)
{
    struct dir dir;
    const char *tmp = getenv("TMPDIR");

    (void)snprintf(dir.path, sizeof dir.path, "%s/kvasir-storage-XXXXXX",
                   tmp == NULL ? "/tmp" : tmp);
    CHECK(mkdtemp(dir.path) != NULL);
    return dir;
}

static inline void
dir_free(struct dir *dir)
{
    DIR *list = opendir(dir->path);
    const struct dirent *entry;

    CHECK(list != NULL);
    while ((entry = readdir(list)) != NULL) {
        (void)unlinkat(dirfd(list), entry->d_name, 0);
    }
    (void)closedir(list);
    CHECK(rmdir(dir->path) == 0);
}

#endif
