#include "chaos/base/flags.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/node.h"

#define MANUAL_BYTES_MAX 65536

/* The flag that `arg` (behind its dashes) names; its value, if it holds one,
 * behind the '='. */
static const struct flag *
find_flag(const struct flags *flags, const char *arg, const char **value)
{
    const char *equals = strchr(arg, '=');
    size_t len = equals != NULL ? (size_t)(equals - arg) : strlen(arg);

    for (size_t i = 0; i < flags->count; i++) {
        const char *name = flags->table[i].name;
        if (strlen(name) == len && strncmp(name, arg, len) == 0) {
            *value = equals != NULL ? equals + 1 : NULL;
            return &flags->table[i];
        }
    }
    return NULL;
}

static bool
set_number(char *at, const struct flag *flag, const char *value)
{
    char *end;
    double number;

    errno = 0;
    number = strtod(value, &end);
    if (errno != 0 || end == value || *end != '\0' || !isfinite(number) ||
        number < flag->min || number > flag->max) {
        return false;
    }
    if (flag->kind == FLAG_REAL) {
        memcpy(at, &number, sizeof(number));
        return true;
    }
    uint64_t count = (uint64_t)number;
    memcpy(at, &count, sizeof(count));
    return (double)count == number;
}

/* Fit to stand in headers, JSON and metrics without escapes. */
static bool
is_plain(const char *text)
{
    const char *c = text;

    while (*c > ' ' && *c < 0x7f && *c != '"' && *c != '\\') {
        c++;
    }
    return *c == '\0' && c != text && c - text <= FLAGS_TEXT_MAX;
}

static bool
is_address(const char *text)
{
    struct in6_addr unused;

    return inet_pton(AF_INET, text, &unused) == 1 ||
           inet_pton(AF_INET6, text, &unused) == 1;
}

static bool
add_item(char *options, const struct flag *flag, const char *value)
{
    uint32_t count;

    memcpy(&count, options + flag->count_at, sizeof(count));
    if (count >= (uint32_t)flag->max || !is_plain(value)) {
        return false;
    }
    memcpy(options + flag->at + count * sizeof(value), &value, sizeof(value));
    count++;
    memcpy(options + flag->count_at, &count, sizeof(count));
    return true;
}

static bool
set_url(char *at, const char *value)
{
    struct url url;

    if (url_parse_http(slice_of(value), &url) != NULL) {
        return false;
    }
    memcpy(at, &url, sizeof(url));
    return true;
}

static bool
set_server(char *at, const char *value)
{
    struct in_addr unused;
    struct url url;

    if (url_parse_peer(slice_of(value), &url) != NULL ||
        inet_pton(AF_INET, url.host, &unused) != 1) {
        return false;
    }
    memcpy(at, &url, sizeof(url));
    return true;
}

/* Which of "one|another" the word is. */
static bool
set_choice(char *at, const char *words, const char *value)
{
    size_t len = strlen(value);

    for (uint32_t i = 0;; i++) {
        size_t word_len = strcspn(words, "|");
        if (word_len == len && memcmp(words, value, len) == 0) {
            memcpy(at, &i, sizeof(i));
            return true;
        }
        if (words[word_len] == '\0') {
            return false;
        }
        words += word_len + 1;
    }
}

static bool
set(char *options, const struct flag *flag, const char *value)
{
    char *at = options + flag->at;
    static const bool yes = true;

    switch (flag->kind) {
    case FLAG_TEXT:
        memcpy(at, &value, sizeof(value));
        return is_plain(value);
    case FLAG_LIST:
        return add_item(options, flag, value);
    case FLAG_HOST:
        memcpy(at, &value, sizeof(value));
        return is_address(value);
    case FLAG_URL:
        return set_url(at, value);
    case FLAG_SERVER:
        return set_server(at, value);
    case FLAG_COUNT:
    case FLAG_REAL:
        return set_number(at, flag, value);
    case FLAG_CHOICE:
        return set_choice(at, flag->value, value);
    case FLAG_SWITCH:
        memcpy(at, &yes, sizeof(yes));
        return true;
    }
    return false;
}

static int
fault_value(const struct flag *flag, const char *value, char *fault,
            size_t size)
{
    const char *wanted = "";

    switch (flag->kind) {
    case FLAG_COUNT:
    case FLAG_REAL:
        (void)snprintf(
            fault, size, "--%s: \"%s\" is not a%s number from %g to %.0f",
            flag->name, value, flag->kind == FLAG_COUNT ? " whole" : "",
            flag->min, flag->max);
        return FLAGS_E_BAD;
    case FLAG_HOST:
        wanted = "an IP address";
        break;
    case FLAG_URL:
        wanted = "http://HOST[:PORT][/PATH]";
        break;
    case FLAG_SERVER:
        wanted = "IPV4:PORT";
        break;
    case FLAG_CHOICE:
        wanted = flag->value;
        break;
    case FLAG_TEXT:
    case FLAG_LIST:
        wanted = "a plain name, or is one too many";
        break;
    case FLAG_SWITCH: /* cannot fail */
        break;
    }
    (void)snprintf(fault, size, "--%s: \"%s\" is not %s", flag->name, value,
                   wanted);
    return FLAGS_E_BAD;
}

/* One flag of the command line. */
struct given {
    const struct flag *flag;
    const char *value; /* NULL for a switch */
    bool took_next;    /* the value was an argument of its own */
};

/* Reads the flag at argv[0]. 0, or FLAGS_E_BAD. */
static int
take(const struct flags *flags, char **argv, struct given *given, char *fault,
     size_t fault_size)
{
    *given = (struct given){.flag = NULL};
    if (strncmp(argv[0], "--", 2) == 0) {
        given->flag = find_flag(flags, argv[0] + 2, &given->value);
    }
    if (given->flag == NULL) {
        (void)snprintf(fault, fault_size, "unknown argument \"%s\"; see --help",
                       argv[0]);
        return FLAGS_E_BAD;
    }
    if (given->flag->kind == FLAG_SWITCH) {
        (void)snprintf(fault, fault_size, "--%s takes no value",
                       given->flag->name);
        return given->value == NULL ? 0 : FLAGS_E_BAD;
    }
    if (given->value == NULL) {
        given->value = argv[1];
        given->took_next = true;
    }
    if (given->value == NULL) {
        (void)snprintf(fault, fault_size, "--%s: %s is missing",
                       given->flag->name, given->flag->value);
        return FLAGS_E_BAD;
    }
    return 0;
}

static void
set_presets(const struct flags *flags, char *options)
{
    for (size_t i = 0; i < flags->count; i++) {
        const struct flag *flag = &flags->table[i];
        if (flag->preset == NULL || flag->kind == FLAG_LIST) {
            continue;
        }
        CHECK(set(options, flag, flag->preset));
    }
}

int
flags_parse(const struct flags *flags, void *options, char **argv, char *fault,
            size_t fault_size)
{
    struct given given;

    set_presets(flags, options);
    for (char **at = argv + 1; *at != NULL; at += given.took_next ? 2 : 1) {
        int r = take(flags, at, &given, fault, fault_size);
        if (r != 0) {
            return r;
        }
        if (!set(options, given.flag, given.value)) {
            return fault_value(given.flag, given.value, fault, fault_size);
        }
    }
    return 0;
}

static void
help_flag(const struct flag *flag, struct buf *out)
{
    char left[64];
    const char *line = flag->help;

    (void)snprintf(left, sizeof(left), "--%s %s", flag->name,
                   flag->kind == FLAG_CHOICE ? "WORD"
                   : flag->value != NULL     ? flag->value
                                             : "");
    if (flag->kind == FLAG_CHOICE) {
        buf_printf(out, "  %-24s  %s:\n", left, flag->value);
        left[0] = '\0';
    }
    while (line != NULL) {
        const char *end = strchr(line, '\n');
        int len = (int)(end != NULL ? (size_t)(end - line) : strlen(line));
        buf_printf(out, "  %-24s  %.*s", left, len, line);
        left[0] = '\0';
        if (end == NULL && flag->preset != NULL) {
            buf_printf(out, " (%s)", flag->preset);
        }
        buf_add_text(out, "\n");
        line = end != NULL ? end + 1 : NULL;
    }
}

void
flags_help(const struct flags *flags, struct buf *out)
{
    for (size_t i = 0; i < flags->count; i++) {
        help_flag(&flags->table[i], out);
    }
}

bool
flags_print(void (*help)(struct buf *out))
{
    struct buf out;

    buf_init(&out, MANUAL_BYTES_MAX);
    help(&out);
    bool done = !out.failed && fwrite(out.ptr, 1, out.len, stdout) == out.len &&
                fflush(stdout) == 0;
    buf_fini(&out);
    return done;
}
