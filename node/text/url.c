/* Addresses as operators write them: parsed, checked, printed. */
#include "node/text/url.h"

#include "index/base/ascii.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define WANT_HTTP "http://HOST:PORT"
#define WANT_WEB  "http://HOST:PORT or https://HOST:PORT"
#define WANT_TCP  "tcp://HOST:PORT"
#define WANT_EVENTS \
    "tcp://HOST:PORT, nats://HOST:PORT/NAME or tls://HOST:PORT/NAME"
#define WANT_PEER   "HOST:PORT"
#define WANT_LISTEN "an IP address and port such as 0.0.0.0:8080 or [::]:8080"

/* Underscores too: they are in container names, if not in RFC 1123. */
static bool
is_name(char c)
{
    c = ascii_lower(c);
    return ascii_is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '.' || c == '_';
}

static bool
is_address(const char *host, int family)
{
    unsigned char bytes[sizeof(struct in6_addr)];

    return inet_pton(family, host, bytes) == 1;
}

/* A name, or an IPv4 address when it looks like one. */
static bool
is_host(const char *host)
{
    bool numeric = true;

    for (const char *c = host; *c != '\0'; c++) {
        numeric = numeric && (ascii_is_digit(*c) || *c == '.');
        if (!is_name(*c) || (*c == '.' && (c == host || c[-1] == '.'))) {
            return false;
        }
    }
    return host[0] != '\0' && host[0] != '-' &&
           (!numeric || is_address(host, AF_INET));
}

/* Takes HOST or [IPV6] from the start of *text. */
static bool
take_host(struct slice *text, char host[URL_HOST_MAX])
{
    bool bracketed = text->len != 0 && text->ptr[0] == '[';
    size_t at = bracketed ? 1 : 0;
    size_t len = 0;

    while (at < text->len && len < URL_HOST_MAX - 1 &&
           (bracketed ? text->ptr[at] != ']' : is_name(text->ptr[at]))) {
        host[len++] = ascii_lower(text->ptr[at++]);
    }
    host[len] = '\0';
    if (bracketed) {
        if (at == text->len || text->ptr[at] != ']' || strlen(host) != len ||
            !is_address(host, AF_INET6)) {
            return false;
        }
        at++;
    } else if (!is_host(host)) {
        return false;
    }
    slice_skip(text, at);
    return true;
}

/* Takes :PORT from the start of *text. */
static bool
take_port(struct slice *text, uint16_t *port)
{
    uint32_t value = 0;
    size_t at = 1;

    if (text->len < 2 || text->ptr[0] != ':' || !ascii_is_digit(text->ptr[1])) {
        return false;
    }
    while (at < text->len && at < 7 && ascii_is_digit(text->ptr[at])) {
        value = value * 10 + (uint32_t)(text->ptr[at++] - '0');
    }
    if (value > UINT16_MAX) {
        return false;
    }
    *port = (uint16_t)value;
    slice_skip(text, at);
    return true;
}

/* All of text as a path; one without its trailing slashes. */
static bool
take_path(struct slice text, char path[URL_PATH_MAX])
{
    while (text.len != 0 && text.ptr[text.len - 1] == '/') {
        text.len--;
    }
    if (text.len >= URL_PATH_MAX || (text.len != 0 && text.ptr[0] != '/')) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c <= ' ' || c >= 0x7F || strchr("?#\"<>\\^`{|}", c) != NULL) {
            return false;
        }
        path[i] = c;
    }
    path[text.len] = '\0';
    CHECK(text.len < URL_PATH_MAX);
    return true;
}

/* What follows the scheme. */
static bool
take_place(struct slice text, struct url *url)
{
    return take_host(&text, url->host) &&
           (text.len == 0 || text.ptr[0] != ':' ||
            take_port(&text, &url->port)) &&
           url->port != 0 && take_path(text, url->path);
}

const char *
url_parse_http(struct slice text, struct url *url)
{
    *url = (struct url){.port = 80};
    return slice_skip_nocase(&text, SLICE("http://")) && take_place(text, url)
               ? NULL
               : WANT_HTTP;
}

const char *
url_parse_web(struct slice text, struct url *url)
{
    if (!slice_skip_nocase(&text, SLICE("https://"))) {
        return url_parse_http(text, url) == NULL ? NULL : WANT_WEB;
    }
    *url = (struct url){.port = 443, .tls = true};
    return take_place(text, url) ? NULL : WANT_WEB;
}

const char *
url_scheme(const struct url *url)
{
    return url->tls ? "https://" : "http://";
}

const char *
url_parse_tcp(struct slice text, struct url *url)
{
    *url = (struct url){.port = 0};
    if (!slice_skip_nocase(&text, SLICE("tcp://")) ||
        !take_host(&text, url->host) || !take_port(&text, &url->port) ||
        text.len != 0 || url->port == 0) {
        return WANT_TCP;
    }
    return NULL;
}

/* A subject's words have dots between them; * and > are for subscribers. */
static bool
is_subject(const char *name)
{
    size_t len = strlen(name);

    return len != 0 && name[0] != '.' && name[len - 1] != '.' &&
           strstr(name, "..") == NULL && strpbrk(name, "/*>") == NULL;
}

const char *
url_parse_events(struct slice text, struct url *url)
{
    bool tls = slice_skip_nocase(&text, SLICE("tls://"));

    if (!tls && !slice_skip_nocase(&text, SLICE("nats://"))) {
        return url_parse_tcp(text, url) == NULL ? NULL : WANT_EVENTS;
    }
    *url = (struct url){.port = 4222, .tls = tls};
    return take_place(text, url) && url->path[0] == '/' &&
                   is_subject(url->path + 1)
               ? NULL
               : WANT_EVENTS;
}

bool
url_is_nats(const struct url *url)
{
    return url->path[0] != '\0';
}

const char *
url_events_scheme(const struct url *url)
{
    return !url_is_nats(url) ? "tcp://" : url->tls ? "tls://" : "nats://";
}

const char *
url_parse_peer(struct slice text, struct url *url)
{
    *url = (struct url){.port = 0};
    if (!take_host(&text, url->host) || !take_port(&text, &url->port) ||
        text.len != 0 || url->port == 0) {
        return WANT_PEER;
    }
    return NULL;
}

const char *
url_parse_listen(struct slice text, struct url *url)
{
    struct sockaddr_storage address;
    bool has_host = text.len == 0 || text.ptr[0] != ':';

    *url = (struct url){.host = "0.0.0.0"};
    if ((has_host && !take_host(&text, url->host)) ||
        !take_port(&text, &url->port) || text.len != 0 ||
        url_sockaddr(url, &address) != 0) {
        return WANT_LISTEN;
    }
    return NULL;
}

const char *
url_authority(const struct url *url, char *out)
{
    bool v6 = strchr(url->host, ':') != NULL;

    int len = snprintf(out, URL_TEXT_MAX, "%s%s%s:%u", v6 ? "[" : "", url->host,
                       v6 ? "]" : "", (unsigned)url->port);
    CHECK(len > 0 && len < URL_TEXT_MAX);
    return out;
}

bool
url_equal(const struct url *a, const struct url *b)
{
    return strcmp(a->host, b->host) == 0 && a->port == b->port &&
           strcmp(a->path, b->path) == 0;
}

bool
url_is_address(const struct url *url)
{
    return is_address(url->host, AF_INET) || is_address(url->host, AF_INET6);
}

int
url_sockaddr(const struct url *url, struct sockaddr_storage *out)
{
    union {
        struct sockaddr_storage any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.any = {.ss_family = AF_UNSPEC}};

    if (inet_pton(AF_INET, url->host, &address.v4.sin_addr) == 1) {
        address.v4.sin_family = AF_INET;
        address.v4.sin_port = htons(url->port);
    } else if (inet_pton(AF_INET6, url->host, &address.v6.sin6_addr) == 1) {
        address.v6.sin6_family = AF_INET6;
        address.v6.sin6_port = htons(url->port);
    } else {
        return -EINVAL;
    }
    *out = address.any;
    return 0;
}
