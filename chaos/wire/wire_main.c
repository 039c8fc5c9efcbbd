/*
 * kvasir-wire: the wire between network interfaces of its namespace. See
 * --help. The bytes go through packet sockets, with the kernel's prefix that
 * says what of a checksum is still to be done.
 */
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "chaos/wire/wire.h"
#include "node/node.h"

#define TURN_FRAMES_MAX  64 /* of one port, before the others have their turn */
#define ANSWER_BYTES_MAX 1024
#define SOCKET_BYTES     (4 << 20)

enum {
    EXIT_FINE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2
};

struct options {
    const char *control;
    const char *ports[WIRE_PORTS_MAX];
    uint32_t ports_count;
    uint64_t seed;
    bool help;
};

#define AT(member) offsetof(struct options, member)

static const struct flag table[] = {
    {"control", FLAG_TEXT, AT(control), 0, 0, "PATH", NULL,
     "socket that commands come to, as datagrams"},
    {"port", FLAG_LIST, AT(ports), 0, WIRE_PORTS_MAX, "INTERFACE", NULL,
     "interface to connect; once for each", AT(ports_count)},
    {"seed", FLAG_COUNT, AT(seed), 0, 9e15, "N", "1", "of all chances"},
    {"help", FLAG_SWITCH, AT(help), 0, 0, NULL, NULL, "this text"},
};

static const struct flags flags = {table, sizeof(table) / sizeof(table[0])};

struct shell {
    struct wire wire;
    struct pollfd fds[WIRE_PORTS_MAX + 1]; /* the last one: control */
    uint32_t ports_count;
};

static volatile sig_atomic_t ended;

static void
on_signal(int number)
{
    (void)number;
    ended = 1;
}

static uint64_t
now_us(void)
{
    struct timespec now;

    CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void
help(struct buf *out)
{
    buf_add_text(
        out, "kvasir-wire: a switch whose links delay, lose and are severed.\n"
             "\n"
             "usage: kvasir-wire --control PATH --port INTERFACE...\n"
             "\n");
    flags_help(&flags, out);
    buf_add_text(
        out,
        "\n"
        "It prints `ready control=PATH`. Commands, a line each, all or "
        "none:\n"
        "  link FROM TO KEY=VALUE...   delay_us, jitter_us, "
        "loss_permille,\n"
        "        duplicate_permille, severed (0, 1); * stands for all ports\n"
        "  reset    all links are perfect\n"
        "  counts   of frames; so does every answer tell\n"
        "  bytes FROM TO   that way carried so far; * as above\n");
}

/* -errno when the interface cannot be opened. */
static int
open_port(const char *name)
{
    static const int on = 1;
    static const int room = SOCKET_BYTES;
    struct sockaddr_ll at = {
        .sll_family = AF_PACKET,
        .sll_protocol = htons(ETH_P_ALL),
        .sll_ifindex = (int)if_nametoindex(name),
    };

    if (at.sll_ifindex == 0) {
        return -errno;
    }
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) == 0 &&
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)) ==
            0 &&
        bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0) {
        return fd;
    }
    int error = -errno;
    (void)close(fd);
    return error;
}

static int
open_control(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(at.sun_path)) {
        return -ENAMETOOLONG;
    }
    memcpy(at.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0) {
        return fd;
    }
    int error = -errno;
    (void)close(fd);
    return error;
}

static void
read_port(struct shell *shell, uint32_t port)
{
    uint8_t bytes[WIRE_FRAME_BYTES_MAX + 1];

    for (unsigned i = 0; i < TURN_FRAMES_MAX; i++) {
        ssize_t len = recv(shell->fds[port].fd, bytes, sizeof(bytes), 0);
        if (len < 0) {
            return;
        }
        wire_recv(&shell->wire, port, bytes, (size_t)len, now_us());
    }
}

static void
read_control(struct shell *shell)
{
    static char text[WIRE_COMMAND_MAX];
    struct sockaddr_un from;
    socklen_t from_len = sizeof(from);
    struct buf answer;
    int fd = shell->fds[shell->ports_count].fd;
    ssize_t len = recvfrom(fd, text, sizeof(text), 0, (struct sockaddr *)&from,
                           &from_len);

    if (len < 0) {
        return;
    }
    buf_init(&answer, ANSWER_BYTES_MAX);
    wire_command(&shell->wire, (struct slice){text, (size_t)len}, &answer);
    /* A client that does not listen gets no answer. */
    (void)sendto(fd, answer.ptr, answer.len, 0, (struct sockaddr *)&from,
                 from_len);
    buf_fini(&answer);
}

/* Frames that an interface refuses because it is down or full are lost. */
static void
send_due(struct shell *shell)
{
    const struct wire_frame *frame;

    while ((frame = wire_next_out(&shell->wire, now_us())) != NULL) {
        (void)send(shell->fds[frame->to].fd, frame->bytes, frame->len, 0);
    }
}

static void
turn(struct shell *shell, const sigset_t *awake)
{
    uint64_t due_us = wire_deadline(&shell->wire);
    uint64_t at_us = now_us();
    uint64_t wait_us = due_us > at_us ? due_us - at_us : 0;
    struct timespec wait = {.tv_sec = (time_t)(wait_us / 1000000),
                            .tv_nsec = (long)(wait_us % 1000000) * 1000};
    int ready = ppoll(shell->fds, shell->ports_count + 1,
                      due_us == UINT64_MAX ? NULL : &wait, awake);

    for (uint32_t i = 0; ready > 0 && i < shell->ports_count; i++) {
        if (shell->fds[i].revents != 0) {
            read_port(shell, i);
        }
    }
    if (ready > 0 && shell->fds[shell->ports_count].revents != 0) {
        read_control(shell);
    }
    send_due(shell);
}

/* The faulty one is named. */
static int
open_all(struct shell *shell, const struct options *options)
{
    for (uint32_t i = 0; i <= options->ports_count; i++) {
        bool is_port = i < options->ports_count;
        const char *name = is_port ? options->ports[i] : options->control;
        int fd = is_port ? open_port(name) : open_control(name);
        if (fd < 0) {
            (void)fprintf(stderr, "kvasir-wire: %s: %s\n", name, strerror(-fd));
            return fd;
        }
        shell->fds[i] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    shell->ports_count = options->ports_count;
    return 0;
}

/* Signals are taken only while waiting. */
static void
catch_signals(sigset_t *awake)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t ours;

    sigemptyset(&ours);
    sigaddset(&ours, SIGTERM);
    sigaddset(&ours, SIGINT);
    CHECK(sigprocmask(SIG_BLOCK, &ours, awake) == 0);
    sigdelset(awake, SIGTERM);
    sigdelset(awake, SIGINT);
    CHECK(sigaction(SIGTERM, &action, NULL) == 0);
    CHECK(sigaction(SIGINT, &action, NULL) == 0);
}

static int
run(const struct options *options)
{
    static struct shell shell;
    sigset_t awake;
    int result = EXIT_FAILED;

    if (wire_init(&shell.wire, options->ports, options->ports_count,
                  options->seed, now_us()) != 0) {
        return EXIT_FAILED;
    }
    catch_signals(&awake);
    if (open_all(&shell, options) == 0 &&
        printf("ready control=%s\n", options->control) > 0 &&
        fflush(stdout) == 0) {
        while (!ended) {
            turn(&shell, &awake);
        }
        (void)unlink(options->control);
        result = EXIT_FINE;
    }
    wire_fini(&shell.wire);
    return result;
}

int
main(int argc, char **argv)
{
    struct options options = {.help = false};
    char fault[512];

    (void)argc;
    if (flags_parse(&flags, &options, argv + 1, fault, sizeof(fault)) != 0) {
        (void)fprintf(stderr, "kvasir-wire: %s\n", fault);
        return EXIT_USAGE;
    }
    if (options.help) {
        return flags_print(help) ? EXIT_FINE : EXIT_FAILED;
    }
    if (options.control == NULL || options.ports_count == 0) {
        (void)fprintf(stderr, "kvasir-wire: --control and --port are needed\n");
        return EXIT_USAGE;
    }
    return run(&options);
}
