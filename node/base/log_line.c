/* One log line as logfmt or JSON, in the caller's memory. */
#include "node/base/log_line_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "index/base/check.h"
#include "node/text/json_text.h"

/* Kept free for the end: omitted, dropped, lost, brace, newline. */
#define TAIL_MAX 128

/* Writes up to `room`; text that does not fit sets `full` and changes
 * nothing. */
struct writer {
    char *out;
    size_t len;
    size_t room;
    enum log_format format;
    bool full;
};

static void
put(struct writer *w, const char *bytes, size_t len)
{
    if (w->full || len > w->room - w->len) {
        w->full = true;
        return;
    }
    memcpy(w->out + w->len, bytes, len);
    w->len += len;
}

__attribute__((format(printf, 2, 3))) static void
put_format(struct writer *w, const char *format, ...)
{
    char text[64];
    va_list args;

    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is, above */
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    CHECK(len >= 0 && (size_t)len < sizeof text);
    put(w, text, (size_t)len);
}

/* Days since 1970 to a date of the proleptic Gregorian calendar, after
 * Howard Hinnant; gmtime_r() takes libc's time zone lock. */
static void
date_of(uint64_t days, unsigned *year, unsigned *month, unsigned *day)
{
    uint64_t z = days + 719468; /* from 0000-03-01 */
    uint64_t era = z / 146097;
    uint64_t doe = z % 146097;
    uint64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    uint64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    uint64_t mp = (5 * doy + 2) / 153;

    *day = (unsigned)(doy - (153 * mp + 2) / 5 + 1);
    *month = (unsigned)(mp < 10 ? mp + 3 : mp - 9);
    *year = (unsigned)(yoe + era * 400 + (*month <= 2 ? 1 : 0));
}

/* So many digits of a number, and what stands behind them. */
static char *
put_digits(char *at, unsigned number, unsigned count, char behind)
{
    for (unsigned i = count; i > 0; i--) {
        at[i - 1] = (char)('0' + number % 10);
        number /= 10;
    }
    at[count] = behind;
    return at + count + 1;
}

void
log_time_text(uint64_t ms, char out[LOG_TIME_ROOM])
{
    uint64_t second = ms / 1000 % 86400;
    unsigned year;
    unsigned month;
    unsigned day;

    date_of(ms / 86400000, &year, &month, &day);
    char *at = put_digits(out, year, 4, '-');
    at = put_digits(at, month, 2, '-');
    at = put_digits(at, day, 2, 'T');
    at = put_digits(at, (unsigned)(second / 3600), 2, ':');
    at = put_digits(at, (unsigned)(second / 60 % 60), 2, ':');
    at = put_digits(at, (unsigned)(second % 60), 2, '.');
    at = put_digits(at, (unsigned)(ms % 1000), 3, 'Z');
    *at = '\0';
}

static void
put_time(struct writer *w, uint64_t wall_us)
{
    char text[LOG_TIME_ROOM];

    log_time_text(wall_us / 1000, text);
    put_format(w, "%s", text);
}

static bool
is_bare(unsigned char c)
{
    return c > 0x20 && c < 0x7F && c != '"' && c != '=' && c != '\\';
}

static bool
all_bare(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!is_bare((unsigned char)text.ptr[i])) {
            return false;
        }
    }
    return text.len != 0;
}

/* One byte as it stands between logfmt quotes; its length. */
static size_t
escape_byte(unsigned char c, char out[4])
{
    static const char hex[] = "0123456789abcdef";
    static const char plain[] = "\"\\\n\r\t";
    static const char letter[] = "\"\\nrt";
    const char *found = c != 0 ? strchr(plain, c) : NULL;

    if (found != NULL) {
        out[0] = '\\';
        out[1] = letter[found - plain];
        return 2;
    }
    if (c >= 0x20 && c < 0x7F) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = '\\';
    out[1] = 'x';
    out[2] = hex[c >> 4];
    out[3] = hex[c & 15U];
    return 4;
}

/* Like json_text_escape(), for logfmt. */
static size_t
escape_logfmt(struct slice *text, char *out, size_t room)
{
    size_t used = 0;

    while (text->len != 0) {
        char one[4];
        size_t size = escape_byte((unsigned char)text->ptr[0], one);
        if (size > room - used) {
            break;
        }
        memcpy(out + used, one, size);
        used += size;
        text->ptr++;
        text->len--;
    }
    return used;
}

static void
put_text(struct writer *w, struct slice text)
{
    char value[LOG_VALUE_MAX];
    bool json = w->format == LOG_FORMAT_JSON;
    bool quoted = json || !all_bare(text);
    struct slice rest = text;
    size_t len = json ? json_text_escape(&rest, value, sizeof value)
                      : escape_logfmt(&rest, value, sizeof value);

    put(w, "\"", quoted ? 1 : 0);
    put(w, value, len);
    put(w, "...", rest.len != 0 ? 3 : 0);
    put(w, "\"", quoted ? 1 : 0);
}

static void
put_fault(struct writer *w, int64_t fault)
{
    char name[64];

    if (fault >= 0 || fault < -4096) {
        put_format(w, "%" PRId64, fault);
        return;
    }
    put_text(w, slice_of(uv_err_name_r((int)fault, name, sizeof name)));
}

static void
put_value(struct writer *w, const struct log_field *field)
{
    switch (field->kind) {
    case LOG_KIND_TEXT:
        put_text(w, field->as.text);
        break;
    case LOG_KIND_INT:
        put_format(w, "%" PRId64, field->as.number);
        break;
    case LOG_KIND_UINT:
        put_format(w, "%" PRIu64, field->as.size);
        break;
    case LOG_KIND_BOOL:
        put_format(w, "%s", field->as.truth ? "true" : "false");
        break;
    case LOG_KIND_FAULT:
        put_fault(w, field->as.number);
        break;
    }
}

static void
put_key(struct writer *w, const char *key)
{
    bool json = w->format == LOG_FORMAT_JSON;

    put(w, json ? ",\"" : " ", json ? 2 : 1);
    put(w, key, strlen(key));
    put(w, json ? "\":" : "=", json ? 2 : 1);
}

/* False: the field did not fit, and nothing of it was written. */
static bool
put_field(struct writer *w, const struct log_field *field)
{
    size_t before = w->len;

    put_key(w, field->key);
    put_value(w, field);
    if (!w->full) {
        return true;
    }
    w->len = before;
    w->full = false;
    return false;
}

static void
put_count(struct writer *w, const char *key, uint64_t count)
{
    struct log_field field = log_field_uint(key, count);

    if (count != 0) {
        CHECK(put_field(w, &field));
    }
}

static void
put_head(struct writer *w, const struct log_line *line)
{
    CHECK(line->count >= 1 && line->fields[0].kind == LOG_KIND_TEXT);
    if (w->format == LOG_FORMAT_JSON) {
        put(w, "{\"ts\":\"", 7);
        put_time(w, line->wall_us);
        put_format(w, "\",\"level\":\"%s\"", log_level_text(line->level));
        CHECK(put_field(w, &line->fields[0]));
        return;
    }
    put_time(w, line->wall_us);
    put_format(w, " %s ", log_level_text(line->level));
    put_text(w, line->fields[0].as.text);
}

size_t
log_line_format(const struct log_line *line, char out[LOG_LINE_MAX])
{
    struct writer w = {
        .out = out, .room = LOG_LINE_MAX - TAIL_MAX, .format = line->format};
    uint64_t omitted = 0;

    put_head(&w, line);
    for (size_t i = 1; i < line->count; i++) {
        omitted += put_field(&w, &line->fields[i]) ? 0 : 1;
    }
    w.room = LOG_LINE_MAX;
    put_count(&w, "omitted", omitted);
    put_count(&w, "dropped", line->dropped);
    put_count(&w, "lost", line->lost);
    if (w.format == LOG_FORMAT_JSON) {
        put(&w, "}", 1);
    }
    put(&w, "\n", 1);
    CHECK(!w.full && w.len <= LOG_LINE_MAX);
    return w.len;
}

const char *
log_level_text(enum log_level level)
{
    switch (level) {
    case LOG_LEVEL_ERROR:
        return "error";
    case LOG_LEVEL_WARNING:
        return "warning";
    case LOG_LEVEL_INFO:
        return "info";
    case LOG_LEVEL_DEBUG:
        return "debug";
    }
    return "unknown";
}
