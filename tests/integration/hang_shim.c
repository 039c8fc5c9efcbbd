/*
 * A library to preload into a node under test: its main thread never comes back
 * from closing its loop, as if something below it waited for ever. What has to
 * be on disk and told to others is so by then.
 */
#include <poll.h>
#include <unistd.h>

struct uv_loop_s;
int uv_loop_close(struct uv_loop_s *loop);

int
uv_loop_close(struct uv_loop_s *loop)
{
    static const char line[] = "hang_shim: closing its loop\n";

    (void)loop;
    if (gettid() == getpid()) {
        (void)!write(STDERR_FILENO, line, sizeof line - 1);
    }
    while (gettid() == getpid()) {
        (void)poll(NULL, 0, -1);
    }
    return 0;
}
