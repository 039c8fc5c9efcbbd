/* Tells the service manager how the node is. */
#include "node/cli/notify_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "index/base/check.h"
#include "node/base/log.h"

#define PERIOD_MAX_US (UINT64_C(86400) * 1000000)

static const char *
variable(char *const *environment, const char *name)
{
    size_t len = strlen(name);

    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, name, len) == 0 &&
            (*environment)[len] == '=') {
            return *environment + len + 1;
        }
    }
    return "";
}

/* 0: there is no such variable, or it is no number. */
static uint64_t
number(char *const *environment, const char *name)
{
    const char *text = variable(environment, name);
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    return *end == '\0' ? value : 0;
}

/* The period is another process's when WATCHDOG_PID names one. */
static uint32_t
read_period_ms(char *const *environment, int64_t pid)
{
    uint64_t whose = number(environment, "WATCHDOG_PID");
    uint64_t us = number(environment, "WATCHDOG_USEC");

    if (whose != 0 && whose != (uint64_t)pid) {
        return 0;
    }
    us = us < PERIOD_MAX_US ? us : PERIOD_MAX_US;
    return us != 0 && us < 1000 ? 1 : (uint32_t)(us / 1000);
}

/* A path, or @NAME of an abstract socket. False: neither, or too long. */
static bool
read_address(const char *text, struct sockaddr_un *to, socklen_t *len)
{
    size_t size = strlen(text);

    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (size < 2 || size >= sizeof to->sun_path ||
        (text[0] != '/' && text[0] != '@')) {
        return false;
    }
    memcpy(to->sun_path, text, size);
    if (text[0] == '@') {
        to->sun_path[0] = '\0';
    }
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    return true;
}

void
notify_open(struct notify *notify, char *const *environment, int64_t pid)
{
    const char *where = variable(environment, "NOTIFY_SOCKET");
    struct sockaddr_un address;
    socklen_t len;
    int error = 0;

    *notify = (struct notify){.fd = -1};
    if (where[0] == '\0') {
        return;
    }
    if (!read_address(where, &address, &len)) {
        error = -EINVAL;
    } else {
        notify->fd =
            socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (notify->fd < 0 ||
            connect(notify->fd, (struct sockaddr *)&address, len) != 0) {
            error = -errno;
        }
    }
    if (error != 0) {
        LOG_WARNING(
            "notify_failed", KV("socket", where), KV_FAULT("error", error),
            KV("hint", "systemd does not hear of this node's state, and may "
                       "take it for stuck: compare the unit with "
                       "deploy/kvasir.service"));
        notify_close(notify);
        return;
    }
    notify->period_ms = read_period_ms(environment, pid);
}

void
notify_close(struct notify *notify)
{
    if (notify->fd >= 0) {
        (void)close(notify->fd);
        notify->fd = -1;
    }
}

static void
say(const struct notify *notify, const char *text)
{
    CHECK(text[0] != '\0');
    if (notify->fd >= 0) {
        (void)!send(notify->fd, text, strlen(text), MSG_NOSIGNAL);
    }
}

void
notify_ready(const struct notify *notify)
{
    say(notify, "READY=1");
}

void
notify_reloading(const struct notify *notify, uint64_t now_us)
{
    char text[64];

    (void)snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
                   now_us);
    say(notify, text);
}

void
notify_stopping(const struct notify *notify)
{
    say(notify, "STOPPING=1");
}

void
notify_alive(const struct notify *notify)
{
    say(notify, "WATCHDOG=1");
}
