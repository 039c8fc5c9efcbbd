/* Who has a port, as /proc tells. */
#include "node/base/port_fault.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "index/base/check.h"

#define STATE_LISTEN    10U
#define ROWS_MAX        65536U /* of one table; a busy machine has fewer */
#define DESCRIPTORS_MAX (UINT32_C(1) << 20) /* of all processes */
#define NAME_BYTES      16U /* of a process, as the kernel keeps it */

/* The table's lines */

static struct slice
word(struct slice *rest)
{
    struct slice got = {.len = 0};

    while (rest->len != 0 && got.len == 0) {
        got = slice_take(rest, ' ');
    }
    return got;
}

static bool
number(struct slice text, int base, uint64_t *out)
{
    char copy[24];
    char *end;

    if (text.len == 0 || text.len >= sizeof copy ||
        !isxdigit((unsigned char)text.ptr[0])) {
        return false;
    }
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    *out = strtoull(copy, &end, base);
    return *end == '\0';
}

/* An address: each 32 bits of it as the machine reads them, in hexadecimal. */
static bool
read_address(struct slice text, uint32_t words[4], unsigned count)
{
    if (text.len != (size_t)count * 8) {
        return false;
    }
    for (unsigned i = 0; i < count; i++) {
        uint64_t value;
        struct slice part = {.ptr = text.ptr + (size_t)i * 8, .len = 8};
        if (!number(part, 16, &value)) {
            return false;
        }
        words[i] = (uint32_t)value;
    }
    return true;
}

static bool
is_any(const uint32_t words[4], unsigned count)
{
    static const uint32_t none[4];

    return memcmp(words, none, count * sizeof words[0]) == 0;
}

/* Whether a listener there keeps another one from `address`. */
static bool
collides(const uint32_t theirs[4], bool wide, const struct sockaddr *address)
{
    bool ours_wide = address->sa_family == AF_INET6;
    unsigned count = wide ? 4 : 1;
    uint32_t ours[4] = {0};

    if (ours_wide) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof in6);
        memcpy(ours, &in6.sin6_addr, sizeof ours);
    } else {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        ours[0] = in.sin_addr.s_addr;
    }
    if (is_any(theirs, count) || is_any(ours, ours_wide ? 4 : 1)) {
        return true;
    }
    return wide == ours_wide &&
           memcmp(theirs, ours, count * sizeof ours[0]) == 0;
}

static uint16_t
port_of(const struct sockaddr *address)
{
    struct sockaddr_in in;

    /* Both families have it at the same place. */
    memcpy(&in, address, sizeof in);
    return ntohs(in.sin_port);
}

bool
port_fault_match(struct slice line, bool wide, const struct sockaddr *address,
                 struct port_fault_socket *out)
{
    uint32_t theirs[4] = {0};
    uint64_t port = 0;
    uint64_t state = 0;
    uint64_t user = 0;

    CHECK(address->sa_family == AF_INET || address->sa_family == AF_INET6);
    (void)word(&line); /* its number */
    struct slice local = word(&line);
    struct slice host = slice_take(&local, ':');
    (void)word(&line); /* the other end */
    if (!read_address(host, theirs, wide ? 4 : 1) ||
        !number(local, 16, &port) || !number(word(&line), 16, &state)) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        (void)word(&line); /* queues, timer, retransmissions */
    }
    if (!number(word(&line), 10, &user)) {
        return false;
    }
    (void)word(&line); /* time-out */
    if (!number(word(&line), 10, &out->inode)) {
        return false;
    }
    out->user = (uint32_t)user;
    return state == STATE_LISTEN && port == port_of(address) &&
           collides(theirs, wide, address);
}

static bool
find_socket(const char *path, bool wide, const struct sockaddr *address,
            struct port_fault_socket *out)
{
    char line[512];
    FILE *table = fopen(path, "re");
    bool found = false;

    if (table == NULL) {
        return false;
    }
    for (unsigned i = 0; i < ROWS_MAX && !found; i++) {
        if (fgets(line, sizeof line, table) == NULL) {
            break;
        }
        line[strcspn(line, "\n")] = '\0';
        found = port_fault_match(slice_of(line), wide, address, out);
    }
    (void)fclose(table);
    return found;
}

/* Its process */

static bool
has_descriptor(const char *pid, const char *wanted, uint32_t *left)
{
    char path[300];
    char link[64];
    struct dirent *entry;
    bool found = false;

    (void)snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *descriptors = opendir(path);
    if (descriptors == NULL) {
        return false;
    }
    while (!found && *left != 0 && (entry = readdir(descriptors)) != NULL) {
        ssize_t len = readlinkat(dirfd(descriptors), entry->d_name, link,
                                 sizeof link - 1);
        (*left)--;
        link[len > 0 ? len : 0] = '\0';
        found = strcmp(link, wanted) == 0;
    }
    (void)closedir(descriptors);
    return found;
}

/* The process that has the socket, or 0. */
static long
find_process(uint64_t inode)
{
    uint32_t left = DESCRIPTORS_MAX;
    char wanted[40];
    struct dirent *entry;
    long pid = 0;
    DIR *all = opendir("/proc");

    (void)snprintf(wanted, sizeof wanted, "socket:[%" PRIu64 "]", inode);
    while (all != NULL && pid == 0 && (entry = readdir(all)) != NULL) {
        if (isdigit((unsigned char)entry->d_name[0]) &&
            has_descriptor(entry->d_name, wanted, &left)) {
            pid = strtol(entry->d_name, NULL, 10);
        }
    }
    if (all != NULL) {
        (void)closedir(all);
    }
    return pid;
}

static void
read_name(long pid, char name[NAME_BYTES])
{
    char path[40];

    (void)snprintf(path, sizeof path, "/proc/%ld/comm", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(name, (int)NAME_BYTES, file) == NULL) {
        (void)snprintf(name, NAME_BYTES, "a process");
    }
    name[strcspn(name, "\n")] = '\0';
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* False: nobody has the address. */
static bool
look(const struct sockaddr *address, char *out)
{
    struct port_fault_socket socket;
    char name[NAME_BYTES];
    long pid;

    if (!find_socket("/proc/net/tcp", false, address, &socket) &&
        !find_socket("/proc/net/tcp6", true, address, &socket)) {
        return false;
    }
    if ((pid = find_process(socket.inode)) == 0) {
        (void)snprintf(out, PORT_FAULT_TEXT_MAX, "a process of user %" PRIu32,
                       socket.user);
    } else if (pid == (long)getpid()) {
        (void)snprintf(out, PORT_FAULT_TEXT_MAX, "this node");
    } else {
        read_name(pid, name);
        (void)snprintf(out, PORT_FAULT_TEXT_MAX, "%s, pid %ld", name, pid);
    }
    return true;
}

/* What was noted */

static struct {
    struct sockaddr_storage address;
    char holder[PORT_FAULT_TEXT_MAX];
} noted[PORT_FAULTS_MAX];
static unsigned noted_count;

static size_t
size_of(const struct sockaddr *address)
{
    return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

void
port_fault_note(const struct sockaddr *address)
{
    if (noted_count < PORT_FAULTS_MAX &&
        look(address, noted[noted_count].holder)) {
        memcpy(&noted[noted_count].address, address, size_of(address));
        noted_count++;
    }
}

const char *
port_fault_holder(int error, const struct sockaddr *address, char *out)
{
    if (error != -EADDRINUSE) {
        (void)snprintf(out, PORT_FAULT_TEXT_MAX, "nobody");
        return out;
    }
    for (unsigned i = 0; i < noted_count; i++) {
        if (memcmp(&noted[i].address, address, size_of(address)) == 0) {
            memcpy(out, noted[i].holder, PORT_FAULT_TEXT_MAX);
            return out;
        }
    }
    if (!look(address, out)) {
        (void)snprintf(out, PORT_FAULT_TEXT_MAX, "not known");
    }
    return out;
}

const char *
port_fault_hint(int error)
{
    switch (error) {
    case -EADDRINUSE:
        return "stop the holder (ss -ltnp shows it to root), or choose another "
               "port: listen, admin, admin.metrics, extproc.listen, "
               "mesh.listen";
    case -EADDRNOTAVAIL:
        return "this machine has no such address: `ip address` lists those "
               "that it has, and 0.0.0.0 is all of them";
    case -EACCES:
        return "ports below 1024 want root, or CAP_NET_BIND_SERVICE, which the "
               "unit file gives";
    case -EMFILE:
    case -ENFILE:
        return "no descriptors are left: start it with more open files "
               "(ulimit -n; LimitNOFILE of a unit)";
    default:
        return "the port cannot be opened: `ss -ltnp` shows who listens where, "
               "`ip address` which addresses there are";
    }
}
