/* `kvasir top`: what a node does, page by page. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "node/cli/cli_admin_internal.h"
#include "node/cli/cli_print_internal.h"
#include "node/cli/cmd_internal.h"
#include "node/cli/top_internal.h"

#define FRAME_BYTES_MAX ((size_t)1 << 20)

static const char help[] =
    "usage: kvasir top [--admin HOST:PORT] [--ca FILE] [--token-file FILE]\n"
    "                  [--mesh] [--interval SECONDS] [--count N]\n"
    "\n"
    "Shows once a second what a node does: its requests, how much of their\n"
    "prompts was cached, how long they took, the mesh, and each worker. On a\n"
    "terminal it redraws the page until you press q, and waits for a node "
    "that\n"
    "restarts. Elsewhere it prints one page after the other.\n"
    "\n" CLI_ADMIN_HELP
    "  --mesh             all living nodes together; their admin ports must "
    "be\n"
    "                     open here, at the mesh's addresses and this one's "
    "port\n"
    "  --interval SECONDS time between two pages, 0.1 to 3600; default: 1\n"
    "  --count N          exit after N pages; default: never\n"
    "  -h, --help         this text\n"
    "\n"
    "Rates, shares and times cover the time since the page before; times are\n"
    "estimated from the buckets of /metrics. The columns of a worker:\n"
    "  TAKES          whether it receives requests\n"
    "  MINE, PEERS    open requests from this node, and from other nodes\n"
    "  OTHER          open requests from elsewhere, by the worker's own count\n"
    "  RUN, WAIT, KV  what the engine reports\n"
    "  BLOCKS         cached blocks, as its events say or else as assumed\n"
    "  QUEUED         prompt tokens of this node's requests that wait there\n"
    "\n"
    "examples:\n"
    "  kvasir top\n"
    "  kvasir top --admin 10.0.0.7:9080 --interval 5\n"
    "  kvasir top --mesh --admin 10.0.0.7:9080\n"
    "  kvasir top --count 1 | cat\n";

struct wish {
    struct cli_admin cli;
    double interval_s;
    uint64_t count; /* 0: no end */
    bool mesh;
};

#define AT(member) offsetof(struct wish, member)

static const struct flag table[] = {
    {.name = "admin", .kind = FLAG_ANY, .at = AT(cli.address)},
    {.name = "ca", .kind = FLAG_ANY, .at = AT(cli.ca)},
    {.name = "token-file", .kind = FLAG_ANY, .at = AT(cli.token_file)},
    {.name = "mesh", .kind = FLAG_SWITCH, .at = AT(mesh)},
    {.name = "interval",
     .kind = FLAG_REAL,
     .at = AT(interval_s),
     .min = 0.1,
     .max = 3600,
     .preset = "1"},
    {.name = "count",
     .kind = FLAG_COUNT,
     .at = AT(count),
     .min = 1,
     .max = 1000000},
    {.name = "help", .kind = FLAG_SWITCH, .at = AT(cli.help), .letter = 'h'},
};

static const struct flags flags = {table, sizeof table / sizeof table[0]};

struct page {
    struct buf metrics;
    struct buf fault;
    struct buf frame;
    struct buf notes;      /* nodes that did not answer, a line each */
    struct top_sample one; /* of the mesh */
    struct top_nodes nodes;
    struct top_sample samples[2];
    uint32_t current; /* of samples */
    bool any;         /* the other one was read, too */
};

static volatile sig_atomic_t ended;

static void
on_signal(int number)
{
    (void)number;
    ended = 1;
}

static uint64_t
clock_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* The terminal */

struct terminal {
    bool out; /* stdout is one */
    bool in;  /* stdin is one: q ends */
    struct termios before;
};

static void
terminal_take(struct terminal *terminal)
{
    struct termios quiet;

    terminal->out = isatty(STDOUT_FILENO) == 1;
    terminal->in =
        terminal->out && tcgetattr(STDIN_FILENO, &terminal->before) == 0;
    if (terminal->in) {
        quiet = terminal->before;
        quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
    }
    if (terminal->out) {
        /* A screen of its own, without a cursor. */
        (void)fputs("\033[?1049h\033[?25l", stdout);
    }
}

static void
terminal_give_back(const struct terminal *terminal)
{
    if (terminal->out) {
        (void)fputs("\033[?25h\033[?1049l", stdout);
        (void)fflush(stdout);
    }
    if (terminal->in) {
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &terminal->before);
    }
}

static struct top_room
terminal_room(const struct terminal *terminal)
{
    struct winsize size;

    if (!terminal->out || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 ||
        size.ws_row == 0) {
        return (struct top_room){.lines = 0};
    }
    return (struct top_room){.lines = size.ws_row, .columns = size.ws_col};
}

/* Waits; false: the command must end. */
static bool
terminal_wait(const struct terminal *terminal, double seconds)
{
    uint64_t until_us = clock_us() + (uint64_t)(seconds * 1e6);
    struct pollfd key = {.fd = terminal->in ? STDIN_FILENO : -1,
                         .events = POLLIN};
    uint64_t now_us;
    char c;

    while (ended == 0 && (now_us = clock_us()) < until_us) {
        int left_ms = (int)((until_us - now_us + 999) / 1000);
        if (poll(&key, 1, left_ms) <= 0) {
            continue;
        }
        if (read(STDIN_FILENO, &c, 1) != 1) {
            key.fd = -1; /* no more key presses */
        } else if (c == 'q' || c == 'Q') {
            return false;
        }
    }
    return ended == 0;
}

/* Pages */

/* Adds a node's page to the sum; 0: it did not answer. */
static uint32_t
fetch_node(struct page *page, const struct cli_admin *cli,
           const struct top_node *node)
{
    struct cli_admin other = *cli;

    other.address = node->address;
    if (cli_admin_fetch(&other, "/metrics", SLICE(""), &page->metrics,
                        &page->fault) != CMD_FINE) {
        buf_printf(&page->notes, "%s: %.*s\n", node->name, (int)page->fault.len,
                   page->fault.len != 0 ? page->fault.ptr : "");
        return 0;
    }
    top_read(&page->one, buf_slice(&page->metrics), clock_us());
    top_join(&page->samples[page->current], &page->one);
    return 1;
}

/* The page that was read of the asked node becomes that of all of them. */
static int
fetch_others(struct page *page, const struct cli_admin *cli)
{
    struct top_sample *all = &page->samples[page->current];
    uint32_t answered = 1;

    buf_clear(&page->notes);
    memcpy(&page->one, all, sizeof page->one);
    memset(all, 0, sizeof *all);
    top_join(all, &page->one);
    int code = cli_admin_fetch(cli, "/admin/mesh", SLICE(""), &page->metrics,
                               &page->fault);
    if (code != CMD_FINE) {
        return code;
    }
    if (!top_nodes_read(&page->nodes, buf_slice(&page->metrics),
                        slice_of(cli_admin_address(cli)))) {
        buf_clear(&page->fault);
        buf_add_text(&page->fault, "the node tells nothing of a mesh");
        return CMD_FAILED;
    }
    for (uint32_t i = 0; i < page->nodes.count; i++) {
        answered += fetch_node(page, cli, &page->nodes.node[i]);
    }
    (void)snprintf(all->node, sizeof all->node, "%u of %u", (unsigned)answered,
                   (unsigned)page->nodes.count + 1);
    return CMD_FINE;
}

static int
fetch(struct page *page, const struct wish *wish)
{
    int code = cli_admin_fetch(&wish->cli, "/metrics", SLICE(""),
                               &page->metrics, &page->fault);

    if (code == CMD_FINE) {
        page->current = 1 - page->current;
        top_read(&page->samples[page->current], buf_slice(&page->metrics),
                 clock_us());
    }
    return code == CMD_FINE && wish->mesh ? fetch_others(page, &wish->cli)
                                          : code;
}

/* On a terminal each line replaces what stood there. */
static void
draw(const struct page *page, const struct terminal *terminal)
{
    struct slice text = buf_slice(&page->frame);
    const char *end = terminal->out ? "\033[K\n" : "\n";

    (void)fputs(terminal->out ? "\033[H" : "", stdout);
    while (text.len != 0) {
        struct slice line = slice_take(&text, '\n');
        (void)fprintf(stdout, "%.*s%s", (int)line.len, line.ptr, end);
    }
    (void)fputs(terminal->out ? "\033[J" : end, stdout);
    (void)fflush(stdout);
}

static void
compose(struct page *page, bool reached, struct top_room room)
{
    const struct top_sample *now = &page->samples[page->current];
    const struct top_sample *before = &page->samples[1 - page->current];

    buf_clear(&page->frame);
    if (!reached) {
        buf_add_slice(&page->frame, buf_slice(&page->fault));
        buf_add_text(&page->frame, "\n");
        room.lines = room.lines > 1 ? room.lines - 1 : room.lines;
    }
    for (size_t i = 0; i < page->notes.len; i++) {
        room.lines -= page->notes.ptr[i] == '\n' && room.lines > 1;
    }
    buf_add_slice(&page->frame, buf_slice(&page->notes));
    /* The last line stays free: writing its end would scroll. */
    room.lines = room.lines > 1 ? room.lines - 1 : room.lines;
    top_show(page->any && reached ? before : NULL, now, &room, &page->frame);
}

/* Runs until the user quits; returns the exit code. */
static int
run(struct page *page, const struct wish *wish, const struct terminal *terminal)
{
    uint64_t shown = 0;
    int code = fetch(page, wish);

    if (code != CMD_FINE) {
        return code;
    }
    if (terminal->out) {
        compose(page, true, terminal_room(terminal));
        draw(page, terminal);
    }
    while (terminal_wait(terminal, wish->interval_s)) {
        code = fetch(page, wish);
        if (code != CMD_FINE && !terminal->out) {
            return code;
        }
        page->any = page->any || code == CMD_FINE;
        compose(page, code == CMD_FINE, terminal_room(terminal));
        draw(page, terminal);
        if (ferror(stdout) != 0) {
            buf_clear(&page->fault);
            buf_add_text(&page->fault, "cannot write to stdout");
            return CMD_FAILED;
        }
        if (++shown == wish->count) {
            break;
        }
    }
    return CMD_FINE;
}

int
cmd_top(char *const *argv)
{
    struct sigaction end = {.sa_handler = on_signal};
    struct terminal terminal = {.out = false};
    struct wish wish = {.cli = {.command = "top"}};

    if (!cli_parse("top", &flags, &wish, argv)) {
        return CMD_USAGE;
    }
    if (wish.cli.help) {
        return cli_print("top", SLICE(help));
    }
    struct page *page = calloc(1, sizeof(*page));
    if (page == NULL) {
        (void)fprintf(stderr, "kvasir top: out of memory\n");
        return CMD_FAILED;
    }
    buf_init(&page->metrics, CLI_ADMIN_ANSWER_MAX);
    buf_init(&page->fault, CLI_ADMIN_FAULT_MAX);
    buf_init(&page->frame, FRAME_BYTES_MAX);
    buf_init(&page->notes, FRAME_BYTES_MAX);
    (void)sigaction(SIGINT, &end, NULL);
    (void)sigaction(SIGTERM, &end, NULL);
    terminal_take(&terminal);
    int code = run(page, &wish, &terminal);
    terminal_give_back(&terminal);
    if (code != CMD_FINE) {
        (void)fprintf(stderr, "kvasir top: %.*s\n", (int)page->fault.len,
                      page->fault.len != 0 ? page->fault.ptr : "");
    }
    buf_fini(&page->notes);
    buf_fini(&page->frame);
    buf_fini(&page->fault);
    buf_fini(&page->metrics);
    free(page);
    return code;
}
