/*
 * Log lines: an event name, then key=value.
 *
 *   LOG_WARNING("worker_down", KV("worker", id), KV("failures", n));
 *   2026-01-02T03:04:05.678Z warning worker_down worker=gpu-1 failures=3
 *
 * or, as JSON lines, {"ts":"...","level":"warning","event":"worker_down",...}.
 * KV() takes text, slices, bools and integers by their C type; KV_FAULT() takes
 * a -errno and prints its name. Whatever bytes a value holds, the line stays
 * one line: text is quoted and escaped (see log_line_internal.h).
 *
 * Each call site has a rate limit of its own: LOG_BURST lines at once, then one
 * per LOG_INTERVAL_US. Further lines are dropped, and the next line ends in
 * dropped=N. If nobody reads the descriptor, lines are lost but no request
 * waits: a line that cannot be written at once is lost, and the next line ends
 * in lost=N.
 *
 * Role: shell. Owns: only its settings. Thread: any, provided that log_init()
 * was called before the first of them started; no lock is taken, the line is
 * built on the stack and written with one write(2). Limits: LOG_LINE_MAX,
 * LOG_VALUE_MAX; longer values are shortened and end in "...". Errors: none.
 */
#ifndef NODE_LOG_H
#define NODE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/gate.h"
#include "index/base/slice.h"

#define LOG_LINE_MAX    4096 /* bytes with the newline: one pipe write */
#define LOG_VALUE_MAX   1024 /* bytes of one value, escaped */
#define LOG_BURST       20
#define LOG_INTERVAL_US UINT64_C(1000000)

enum log_level {
    LOG_LEVEL_ERROR,   /* the node cannot do what it was asked to do */
    LOG_LEVEL_WARNING, /* it can, but an operator should look */
    LOG_LEVEL_INFO,    /* an operator may want to find it later */
    LOG_LEVEL_DEBUG,
};

enum log_format {
    LOG_FORMAT_LOGFMT,
    LOG_FORMAT_JSON,
};

enum log_kind {
    LOG_KIND_TEXT,
    LOG_KIND_INT,
    LOG_KIND_UINT,
    LOG_KIND_BOOL,
    LOG_KIND_FAULT, /* -errno, by name */
};

/* One key=value; built by KV(), never by hand. */
struct log_field {
    const char *key; /* [a-z0-9_]+ */
    enum log_kind kind;
    union {
        struct slice text; /* borrowed for the call */
        int64_t number;
        uint64_t size;
        bool truth;
    } as;
};

struct log_time {
    uint64_t wall_us;      /* since 1970, UTC */
    uint64_t monotonic_us; /* for the rate limit */
};

struct log_options {
    enum log_level level;
    enum log_format format;
    int fd;                           /* borrowed */
    void (*clock)(struct log_time *); /* NULL: the system's clocks */
};

/* One per call site, static, all zero at first. */
struct log_site {
    struct gate gate;
    uint32_t burst; /* lines at once; 0: LOG_BURST */
};

/* Before this call: info, logfmt, stderr. Call before starting threads. */
void log_init(const struct log_options *options);

/* A time in milliseconds since 1970 as lines have it, 2026-01-31T23:59:59.000Z
 * (RFC 3339). Any thread; takes no lock. */
#define LOG_TIME_ROOM 48U
void log_time_text(uint64_t ms, char out[LOG_TIME_ROOM]);

/* Another level and format from now on. Any thread, one at a time. */
void log_set(enum log_level level, enum log_format format);

/* Whether lines of this level are written. Any thread. */
bool log_enabled(enum log_level level);

/* fields[0] is the event as text; count >= 1. Use the macros below. */
void log_write(struct log_site *site, enum log_level level,
               const struct log_field *fields, size_t count);

/* Counts of lines: written to the kernel, dropped by the rate limit, and lost
 * because nobody read. For the metrics. */
struct log_stats {
    uint64_t written;
    uint64_t dropped;
    uint64_t lost;
};

/* Copies the counters. Any thread. */
void log_stats(struct log_stats *stats);

/* "error", "warning", "info", "debug". Static text. */
const char *log_level_text(enum log_level level);

/* One field, for KV() and KV_FAULT(); key and value are borrowed until the line
 * is written. A value of NULL is an empty text. */
static inline struct log_field
log_field_text(const char *key, const char *value)
{
    return (struct log_field){
        .key = key, .kind = LOG_KIND_TEXT, .as.text = slice_of(value)};
}

/* The same of text that does not end in NUL. */
static inline struct log_field
log_field_slice(const char *key, struct slice value)
{
    return (struct log_field){
        .key = key, .kind = LOG_KIND_TEXT, .as.text = value};
}

/* The same of a signed integer. */
static inline struct log_field
log_field_int(const char *key, int64_t value)
{
    return (struct log_field){
        .key = key, .kind = LOG_KIND_INT, .as.number = value};
}

/* The same of an unsigned integer. */
static inline struct log_field
log_field_uint(const char *key, uint64_t value)
{
    return (struct log_field){
        .key = key, .kind = LOG_KIND_UINT, .as.size = value};
}

/* The same of a bool, written as true or false. */
static inline struct log_field
log_field_bool(const char *key, bool value)
{
    return (struct log_field){
        .key = key, .kind = LOG_KIND_BOOL, .as.truth = value};
}

/* The same of -errno, written by its name. */
static inline struct log_field
log_field_fault(const char *key, int fault)
{
    return (struct log_field){
        .key = key, .kind = LOG_KIND_FAULT, .as.number = fault};
}

/* One field, by the type of value. */
#define KV(key, value) \
    _Generic((value),                        \
             bool: log_field_bool,           \
             char *: log_field_text,         \
             const char *: log_field_text,   \
             struct slice: log_field_slice,  \
             int: log_field_int,             \
             long: log_field_int,            \
             long long: log_field_int,       \
             unsigned char: log_field_uint,  \
             unsigned short: log_field_uint, \
             unsigned: log_field_uint,       \
             unsigned long: log_field_uint,  \
             unsigned long long: log_field_uint)((key), (value))

/* A result below zero, by name, such as ECONNREFUSED. */
#define KV_FAULT(key, result) log_field_fault((key), (result))

/* A literal event, then the given fields (a trailing comma is allowed). */
#define LOG_FIELDS(event, ...) log_field_text("event", "" event), __VA_ARGS__

/* LOG_AT(level, event, fields...); the event is a literal [a-z0-9_]+. The body
 * runs once: it is a "while" instead of an "if" so that no "else" can attach to
 * it. */
#define LOG_AT(level, ...) LOG_WITH(level, 0, __VA_ARGS__)

/* The same without a rate limit: for lines that somebody's own doing bounds. */
#define LOG_EACH(level, ...) LOG_WITH(level, UINT32_MAX, __VA_ARGS__)

#define LOG_WITH(level, at_once, ...)                                  \
    while (log_enabled(level)) {                                       \
        static struct log_site log_site_here = {.burst = (at_once)};   \
        const struct log_field log_fields_here[] = {                   \
            LOG_FIELDS(__VA_ARGS__, )};                                \
        log_write(&log_site_here, (level), log_fields_here,            \
                  sizeof log_fields_here / sizeof log_fields_here[0]); \
        break;                                                         \
    }

#define LOG_ERROR(...)   LOG_AT(LOG_LEVEL_ERROR, __VA_ARGS__)
#define LOG_WARNING(...) LOG_AT(LOG_LEVEL_WARNING, __VA_ARGS__)
#define LOG_INFO(...)    LOG_AT(LOG_LEVEL_INFO, __VA_ARGS__)
#define LOG_DEBUG(...)   LOG_AT(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
