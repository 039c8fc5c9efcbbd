/* Files and streams, read whole. */
#include "node/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_BYTES 65536U

int
file_read_all(FILE *from, struct buf *to)
{
    while (!feof(from)) {
        char *room = buf_reserve(to, CHUNK_BYTES);
        if (room == NULL) {
            return -ENOMEM;
        }
        errno = 0;
        to->len += fread(room, 1, CHUNK_BYTES, from);
        if (ferror(from)) {
            return errno != 0 ? -errno : -EIO;
        }
    }
    return 0;
}

ssize_t
file_read(const char *path, char *bytes, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t count = 1;

    if (fd < 0) {
        return -errno;
    }
    while (len < size && count > 0) {
        count = read(fd, bytes + len, size - len);
        len += count > 0 ? (size_t)count : 0;
    }
    int error = errno;
    (void)close(fd);
    return count < 0 ? -error : (ssize_t)len;
}

void
file_read_word(const char *path, char *word, size_t room)
{
    CHECK(room != 0);
    ssize_t len = file_read(path, word, room - 1);

    word[len > 0 ? len : 0] = '\0';
    word[strcspn(word, " \t\r\n")] = '\0';
}
