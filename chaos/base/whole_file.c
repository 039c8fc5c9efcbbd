/* What a command line names, read whole. */
#include "chaos/base/whole_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CHUNK_BYTES ((size_t)1 << 20)

static int
read_all(FILE *from, struct buf *out)
{
    for (;;) {
        char *to = buf_reserve(out, CHUNK_BYTES);
        if (to == NULL) {
            return -ENOMEM;
        }
        errno = 0;
        size_t got = fread(to, 1, CHUNK_BYTES, from);
        out->len += got;
        if (got < CHUNK_BYTES) {
            return ferror(from) == 0 ? 0 : errno != 0 ? -errno : -EIO;
        }
    }
}

int
whole_file_read(const char *path, struct buf *out)
{
    FILE *from = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");

    if (from == NULL) {
        return -errno;
    }
    int error = read_all(from, out);
    if (from != stdin) {
        (void)fclose(from);
    }
    return error;
}
