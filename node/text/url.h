/*
 * Addresses of services: http://HOST[:PORT][/PATH], the same with https,
 * tcp://HOST:PORT, nats://HOST[:PORT]/NAME, the same with tls, and bare HOST:PORT.
 *
 * The subset of RFC 3986 that operators need: no user, query or fragment; the
 * host is a name, an IPv4 address or a bracketed IPv6 address.
 *
 * Role: core. Owns: nothing; the results are plain values.
 * Thread: any. Limits: URL_HOST_MAX, URL_PATH_MAX. Errors: a static text that
 * says what was expected.
 */
#ifndef NODE_URL_H
#define NODE_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define URL_HOST_MAX 254 /* a DNS name and its NUL */
#define URL_PATH_MAX 128 /* with its NUL */
#define URL_TEXT_MAX (URL_HOST_MAX + URL_PATH_MAX + 24)

struct url {
    char host[URL_HOST_MAX]; /* lower case, IPv6 without brackets */
    uint16_t port;           /* 0 only for an address to listen on */
    char path[URL_PATH_MAX]; /* "" or "/base", never with a trailing slash */
    bool tls;                /* https, tls */
};

/* http://HOST[:PORT][/PATH], port 80 when absent. NULL, or what was expected
 * (and *url is undefined). */
const char *url_parse_http(struct slice text, struct url *url) MUST_CHECK;

/* The same, or https://HOST[:PORT][/PATH], port 443 when absent. */
const char *url_parse_web(struct slice text, struct url *url) MUST_CHECK;

/* "http://" or "https://". Static text. */
const char *url_scheme(const struct url *url);

/* tcp://HOST:PORT, no path. As above. */
const char *url_parse_tcp(struct slice text, struct url *url) MUST_CHECK;

/* The same, or nats://HOST[:PORT]/NAME, port 4222 when absent: NAME is a subject
 * without wildcards, or a stream's name. With TLS tls://, as NATS' clients say. */
const char *url_parse_events(struct slice text, struct url *url) MUST_CHECK;

/* Of what url_parse_events() read: whether it is nats:// or tls://. Its name is
 * path + 1. */
bool url_is_nats(const struct url *url);

/* Of the same, "tcp://", "nats://" or "tls://". Static text. */
const char *url_events_scheme(const struct url *url);

/* HOST:PORT of something to connect to, port 1..65535. As above. */
const char *url_parse_peer(struct slice text, struct url *url) MUST_CHECK;

/* ADDRESS:PORT to listen on: an IP address, port 0..65535; :PORT is that of
 * all IPv4 addresses. As above. */
const char *url_parse_listen(struct slice text, struct url *url) MUST_CHECK;

/* "host:port", IPv6 in brackets, into out (URL_TEXT_MAX bytes); returns out.
 * The Host header of requests to it, and how logs name it. */
const char *url_authority(const struct url *url, char *out);

/* Whether host, port and path are the same. */
bool url_equal(const struct url *a, const struct url *b);

/* Whether its host is an IP address, not a name (or ""). */
bool url_is_address(const struct url *url);

/* The socket address of a url whose host is an IP address. 0, or -EINVAL when
 * it is a name. */
int url_sockaddr(const struct url *url, struct sockaddr_storage *out)
    MUST_CHECK;

#endif
