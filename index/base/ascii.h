/*
 * Characters of ASCII, whatever the locale.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none.
 */
#ifndef INDEX_BASE_ASCII_H
#define INDEX_BASE_ASCII_H

#include <stdbool.h>

/* True for '0' to '9'. */
static inline bool
ascii_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* True for a space and a tab. */
static inline bool
ascii_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Letters folded to lower case, everything else as it is. */
static inline char
ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* 0 to 15; -1: not a hexadecimal digit. */
static inline int
ascii_hex(char c)
{
    char low = ascii_lower(c);

    if (ascii_is_digit(c)) {
        return c - '0';
    }
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

#endif
