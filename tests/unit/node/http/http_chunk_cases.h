/*
 * Chunked bodies that must be read and such that must be refused, in tables,
 * for the unit tests and for the seeds of the fuzz corpora.
 */
#ifndef TESTS_UNIT_NODE_HTTP_CHUNK_CASES_H
#define TESTS_UNIT_NODE_HTTP_CHUNK_CASES_H

#include <stddef.h>

#include "index/base/slice.h"

struct http_chunk_good {
    const char *name;
    struct slice body; /* whole body, nothing after it */
    struct slice data;
};

#define GOOD(name, body, data)         \
    {                                  \
        name, SLICE(body), SLICE(data) \
    }

static const struct http_chunk_good http_chunk_goods[] = {
    GOOD("empty", "0\r\n\r\n", ""),
    GOOD("one", "5\r\nhello\r\n0\r\n\r\n", "hello"),
    GOOD("two", "5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n", "hello, world"),
    GOOD("hex of both cases",
         "a\r\n0123456789\r\nB\r\n0123456789a\r\n0\r\n\r\n",
         "01234567890123456789a"),
    GOOD("leading zeros", "0000000000000003\r\nabc\r\n000\r\n\r\n", "abc"),
    GOOD("data of line ends", "4\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n"),
    GOOD("data of NULs", "2\r\n\0\0\r\n0\r\n\r\n", "\0\0"),
    GOOD("extension", "3;a=b\r\nabc\r\n0;last\r\n\r\n", "abc"),
    GOOD("quoted extension", "3;a=\"b; \t\xC3\xA9\"\r\nabc\r\n0\r\n\r\n",
         "abc"),
    GOOD("extension without a value", "3;a\r\nabc\r\n0;b;c\r\n\r\n", "abc"),
    GOOD("several extensions",
         "3;a=\"\";b=c;d=\";=\"\r\nabc\r\n0;a=b;c=d\r\n\r\n", "abc"),
    GOOD("trailer", "1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n", "x"),
    GOOD("two trailers", "0\r\nA:\r\nX-B:\t b \r\n\r\n", ""),
    GOOD("trailers that nearly frame",
         "0\r\nContent-Lengt: 1\r\nContent-Lengths: 1\r\nHos: 1\r\nHosts: 1\r\n"
         "XHost: 1\r\nConnections: 1\r\nTransfer_Encoding: 1\r\n\r\n",
         ""),
    GOOD(
        "a trailer name longer than 255",
        "0\r\nhostaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        ": 1\r\n\r\n",
        ""),
};

struct http_chunk_wrong {
    const char *name;
    struct slice bytes;
    size_t at; /* the byte that is refused */
};

#define WRONG(name, before, from)                    \
    {                                                \
        name, SLICE(before from), sizeof(before) - 1 \
    }

static const struct http_chunk_wrong http_chunk_wrongs[] = {
    WRONG("no size", "", "\r\nabc"),
    WRONG("no size but an extension", "", ";a\r\n"),
    WRONG("not hex", "", "g\r\n"),
    WRONG("0x", "0", "x5\r\nhello\r\n"),
    WRONG("sign", "", "+5\r\nhello\r\n"),
    WRONG("minus", "", "-1\r\n"),
    WRONG("blank before the size", "", " 5\r\nhello\r\n"),
    WRONG("blank after the size", "5", " \r\nhello\r\n"),
    WRONG("tab after the size", "5", "\t\r\nhello\r\n"),
    WRONG("blank before an extension", "5", " ;a\r\nhello\r\n"),
    WRONG("underscore", "1", "_0\r\n"),
    WRONG("17 digits", "0000000000000000", "5\r\nhello\r\n"),
    WRONG("overflow", "FFFFFFFFFFFFFFFF", "0\r\n"),
    WRONG("bare LF after the size", "5", "\nhello\r\n"),
    WRONG("bare CR after the size", "5\r", "hello\r\n"),
    WRONG("CR CR LF after the size", "5\r", "\r\nhello\r\n"),
    WRONG("NUL in the size", "5", "\0\r\nhello\r\n"),
    WRONG("extension without a name", "5;", "\r\nhello\r\n"),
    WRONG("extension without a name but a value", "5;", "=b\r\nhello\r\n"),
    WRONG("extension with an empty value", "5;a=", "\r\nhello\r\n"),
    WRONG("blank before the name of an extension", "5;", " a\r\nhello\r\n"),
    WRONG("blank after the name of an extension", "5;a", " =b\r\nhello\r\n"),
    WRONG("blank before the value of an extension", "5;a=", " b\r\nhello\r\n"),
    WRONG("blank after an extension", "5;a=b", " \r\nhello\r\n"),
    WRONG("backslash in quotes", "5;a=\"b", "\\\"\"\r\nhello\r\n"),
    WRONG("quotes that do not end", "5;a=\"b", "\r\nhello\r\n"),
    WRONG("bytes after quotes", "5;a=\"b\"", "c\r\nhello\r\n"),
    WRONG("bare LF in quotes", "5;a=\"b", "\n\"\r\nhello\r\n"),
    WRONG("bare LF after a value", "5;a=b", "\nhello\r\n"),
    WRONG("quote within a value", "5;a=b", "\"c\"\r\nhello\r\n"),
    WRONG("bare LF in an extension", "5;a", "\nhello\r\n"),
    WRONG("bare CR in an extension", "5;a\r", "b\r\nhello\r\n"),
    WRONG("NUL in an extension", "5;a", "\0\r\nhello\r\n"),
    WRONG("DEL in an extension", "5;a", "\x7F\r\nhello\r\n"),
    WRONG("longer than its size", "5\r\nhello", "!\r\n0\r\n\r\n"),
    WRONG("shorter than its size", "5\r\nhell\r", "\n0\r\n\r\n"),
    WRONG("bare LF after the data", "5\r\nhello", "\n0\r\n\r\n"),
    WRONG("bare CR after the data", "5\r\nhello\r", "0\r\n\r\n"),
    WRONG("blank line between chunks", "1\r\na\r\n", "\r\n0\r\n\r\n"),
    WRONG("bare LF at the end", "0\r\n", "\n"),
    WRONG("bare CR at the end", "0\r\n\r", "x"),
    WRONG("trailer without a name", "0\r\n", ": x\r\n\r\n"),
    WRONG("trailer without a colon", "0\r\nabc", "\r\n\r\n"),
    WRONG("blank before a trailer's colon", "0\r\nabc", " : x\r\n\r\n"),
    WRONG("folded trailer", "0\r\nA: x\r\n", " y\r\n\r\n"),
    WRONG("trailer with a bare LF", "0\r\nA: x", "\nB: y\r\n\r\n"),
    WRONG("trailer with a bare CR", "0\r\nA: x\r", "B: y\r\n\r\n"),
    WRONG("trailer with a NUL", "0\r\nA: x", "\0\r\n\r\n"),
    WRONG("trailer name beyond ASCII", "0\r\nA", "\xC3\xA9: x\r\n\r\n"),
    WRONG("Content-Length as a trailer", "0\r\ncontent-LENGTH", ": 5\r\n\r\n"),
    WRONG("Transfer-Encoding as a trailer", "0\r\nA: b\r\nTransfer-Encoding",
          ": chunked\r\n\r\n"),
    WRONG("Host as a trailer", "0\r\nhost", ": a\r\n\r\n"),
    WRONG("Proxy-Connection as a trailer", "0\r\nproxy-connection",
          ": close\r\n\r\n"),
    WRONG("Connection as a trailer", "0\r\nConnection", ": close\r\n\r\n"),
};

#endif
