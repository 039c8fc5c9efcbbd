/* What a command line names, read and written whole. */
#include "chaos/base/whole_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "node/node.h"

int
whole_file_read(const char *path, struct buf *out)
{
    FILE *from = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");

    if (from == NULL) {
        return -errno;
    }
    int error = file_read_all(from, out);
    if (from != stdin) {
        (void)fclose(from);
    }
    return error;
}

static int
error_or(int otherwise)
{
    return errno != 0 ? -errno : otherwise;
}

int
whole_file_write(const char *path, const struct buf *bytes)
{
    bool out = strcmp(path, "-") == 0;
    int error = 0;

    if (bytes->failed) {
        return -ENOMEM;
    }
    errno = 0;
    FILE *to = out ? stdout : fopen(path, "wb");
    if (to == NULL) {
        return error_or(-EIO);
    }
    if (fwrite(bytes->ptr, 1, bytes->len, to) != bytes->len ||
        fflush(to) != 0) {
        error = error_or(-EIO);
    }
    if (!out && fclose(to) != 0 && error == 0) {
        error = error_or(-EIO);
    }
    return error;
}
