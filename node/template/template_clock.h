/*
 * The time that templates show.
 *
 * Role: core. Owns: nothing.
 */
#ifndef NODE_TEMPLATE_CLOCK_H
#define NODE_TEMPLATE_CLOCK_H

/* The local time that strftime_now() shows; the fields of <time.h>. */
struct template_clock {
    int year;  /* 2026 */
    int month; /* 1 to 12 */
    int day;
    int hour;
    int minute;
    int second;
    int microsecond;
    int weekday; /* 0: Sunday */
    int yearday; /* 0 to 365 */
};

#endif
