/* strftime() in the C locale, without one: the names and numbers of a date. */
#include "node/template/template_time_internal.h"

static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const months[] = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};

static bool
is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* The week of ISO 8601; *year is the one it belongs to. */
static int
iso_week(const struct template_clock *clock, int *year)
{
    int weekday = (clock->weekday + 6) % 7; /* 0: Monday */
    int week = (clock->yearday - weekday + 10) / 7;
    int jan1 = ((weekday - clock->yearday) % 7 + 7) % 7;
    bool long_year = jan1 == 3 || (jan1 == 2 && is_leap(clock->year));

    *year = clock->year;
    if (week < 1) {
        int before = clock->year - 1;
        int first = ((jan1 - (is_leap(before) ? 366 : 365)) % 7 + 7) % 7;
        *year = before;
        return first == 3 || (first == 2 && is_leap(before)) ? 53 : 52;
    }
    if (week == 53 && !long_year) {
        *year = clock->year + 1;
        return 1;
    }
    return week;
}

/* The hour from 1 to 12. */
static int
hour12(const struct template_clock *clock)
{
    return clock->hour % 12 == 0 ? 12 : clock->hour % 12;
}

static bool
put_date(struct buf *out, char c, const struct template_clock *clock)
{
    int year = 0;
    int week = 0;

    switch (c) {
    case 'Y':
        buf_printf(out, "%d", clock->year);
        return true;
    case 'y':
        buf_printf(out, "%02d", clock->year % 100);
        return true;
    case 'C':
        buf_printf(out, "%02d", clock->year / 100);
        return true;
    case 'm':
        buf_printf(out, "%02d", clock->month);
        return true;
    case 'd':
        buf_printf(out, "%02d", clock->day);
        return true;
    case 'e':
        buf_printf(out, "%2d", clock->day);
        return true;
    case 'j':
        buf_printf(out, "%03d", clock->yearday + 1);
        return true;
    case 'G':
    case 'g':
    case 'V':
        week = iso_week(clock, &year);
        buf_printf(out, c == 'G' ? "%d" : "%02d",
                   c == 'G'   ? year
                   : c == 'g' ? year % 100
                              : week);
        return true;
    case 'U':
        buf_printf(out, "%02d", (clock->yearday + 7 - clock->weekday) / 7);
        return true;
    case 'W':
        buf_printf(out, "%02d",
                   (clock->yearday + 7 - (clock->weekday + 6) % 7) / 7);
        return true;
    case 'u':
        buf_printf(out, "%d", clock->weekday == 0 ? 7 : clock->weekday);
        return true;
    case 'w':
        buf_printf(out, "%d", clock->weekday);
        return true;
    default:
        return false;
    }
}

static bool
put_name(struct buf *out, char c, const struct template_clock *clock)
{
    switch (c) {
    case 'A':
        buf_add_text(out, days[clock->weekday]);
        return true;
    case 'a':
        buf_add(out, days[clock->weekday], 3);
        return true;
    case 'B':
        buf_add_text(out, months[clock->month - 1]);
        return true;
    case 'b':
    case 'h':
        buf_add(out, months[clock->month - 1], 3);
        return true;
    case 'p':
        buf_add_text(out, clock->hour < 12 ? "AM" : "PM");
        return true;
    case 'P':
        buf_add_text(out, clock->hour < 12 ? "am" : "pm");
        return true;
    case 'n':
        buf_add_text(out, "\n");
        return true;
    case 't':
        buf_add_text(out, "\t");
        return true;
    case '%':
        buf_add_text(out, "%");
        return true;
    case 'z': /* a time without a zone, as datetime.now() gives it */
    case 'Z':
        return true;
    default:
        return false;
    }
}

static bool
put_clock(struct buf *out, char c, const struct template_clock *clock)
{
    switch (c) {
    case 'H':
        buf_printf(out, "%02d", clock->hour);
        return true;
    case 'k':
        buf_printf(out, "%2d", clock->hour);
        return true;
    case 'I':
        buf_printf(out, "%02d", hour12(clock));
        return true;
    case 'l':
        buf_printf(out, "%2d", hour12(clock));
        return true;
    case 'M':
        buf_printf(out, "%02d", clock->minute);
        return true;
    case 'S':
        buf_printf(out, "%02d", clock->second);
        return true;
    case 'f':
        buf_printf(out, "%06d", clock->microsecond);
        return true;
    default:
        return false;
    }
}

/* What a letter stands for that is made of others, or NULL. */
static const char *
longer(char c)
{
    switch (c) {
    case 'c':
        return "%a %b %e %H:%M:%S %Y";
    case 'D':
    case 'x':
        return "%m/%d/%y";
    case 'F':
        return "%Y-%m-%d";
    case 'T':
    case 'X':
        return "%H:%M:%S";
    case 'R':
        return "%H:%M";
    case 'r':
        return "%I:%M:%S %p";
    default:
        return NULL;
    }
}

/* %-d: without leading zeros and blanks. */
static void
put_bare(struct buf *out, char c, const struct template_clock *clock)
{
    size_t from = out->len;
    size_t skip = from;

    (void)(put_date(out, c, clock) || put_clock(out, c, clock) ||
           put_name(out, c, clock));
    while (!out->failed && skip + 1 < out->len &&
           (out->ptr[skip] == '0' || out->ptr[skip] == ' ')) {
        skip++;
    }
    if (skip > from) {
        memmove(out->ptr + from, out->ptr + skip, out->len - skip);
        out->len -= skip - from;
    }
}

static const char *
put(struct buf *out, struct slice format, const struct template_clock *clock,
    bool inner)
{
    for (size_t i = 0; i < format.len; i++) {
        char c = format.ptr[i];
        if (c != '%') {
            buf_add(out, &c, 1);
            continue;
        }
        c = ++i < format.len ? format.ptr[i] : '\0';
        if (c == '-' && i + 1 < format.len) {
            put_bare(out, format.ptr[++i], clock);
            continue;
        }
        if (put_date(out, c, clock) || put_clock(out, c, clock) ||
            put_name(out, c, clock)) {
            continue;
        }
        if (inner || longer(c) == NULL) {
            return "unknown letter in the format";
        }
        (void)put(out, slice_of(longer(c)), clock, true);
    }
    return NULL;
}

const char *
tpl_time_put(struct buf *out, struct slice format,
             const struct template_clock *clock)
{
    CHECK(clock->month >= 1 && clock->month <= 12);
    CHECK(clock->weekday >= 0 && clock->weekday <= 6);
    return put(out, format, clock, false);
}
