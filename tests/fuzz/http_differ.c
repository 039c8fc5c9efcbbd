/* Reads one message with both parsers and compares what each says. */
#include "tests/fuzz/http_differ.h"

#include "index/base/buf.h"
#include "node/http/http_chunk.h"
#include "tests/fuzz/http_llhttp.h"

_Static_assert(HTTP_HEADERS_MAX == HTTP_LLHTTP_HEADERS_MAX, "room for as many");

#define BODY_BYTES_MAX (1U << 20)
#define PREFIXES_MAX   256

static const struct http_limits limits = {.head_bytes_max = 1U << 20,
                                          .target_bytes_max = 1U << 20,
                                          .headers_max = HTTP_HEADERS_MAX};

/* What ours makes of a body. */
struct ours {
    bool done;
    bool bad;
    size_t used; /* bytes of the input */
    struct buf body;
};

static void
read_chunks(struct ours *ours, struct http_chunk *chunk, struct slice in)
{
    const char *start = in.ptr;
    struct slice piece;
    int outcome;

    while ((outcome = http_chunk_next(chunk, &in, &piece)) ==
           HTTP_CHUNK_E_DATA) {
        buf_add_slice(&ours->body, piece);
    }
    ours->done = outcome == 0;
    ours->bad = outcome == HTTP_CHUNK_E_BAD;
    ours->used += (size_t)(in.ptr - start);
}

static void
read_body(struct ours *ours, const struct http_head *head, struct slice rest)
{
    struct http_chunk chunk = {0};
    size_t len = rest.len;

    switch (head->body) {
    case HTTP_BODY_NONE:
        ours->done = true;
        return;
    case HTTP_BODY_LENGTH:
        if (len >= head->content_length) {
            len = (size_t)head->content_length;
            ours->done = true;
        }
        break;
    case HTTP_BODY_CHUNKED:
        read_chunks(ours, &chunk, rest);
        return;
    case HTTP_BODY_CLOSE:
        ours->done = true;
        break;
    }
    buf_add(&ours->body, rest.ptr, len);
    ours->used = len;
}

static const char *
compare_headers(const struct http_head *head, const struct http_llhttp *theirs)
{
    if (head->headers_count != theirs->headers_count) {
        return "number of headers";
    }
    for (size_t i = 0; i < head->headers_count; i++) {
        if (!slice_equal(head->headers[i].name, theirs->headers[i].name)) {
            return "name of a header";
        }
        if (!slice_equal(head->headers[i].value,
                         slice_trim(theirs->headers[i].value))) {
            return "value of a header";
        }
    }
    return NULL;
}

static const char *
compare_framing(const struct http_head *head, const struct http_llhttp *theirs)
{
    switch (head->body) {
    case HTTP_BODY_NONE: /* an answer without a body may name a length */
        return NULL;
    case HTTP_BODY_LENGTH:
        return theirs->length_given && !theirs->chunked &&
                       theirs->length == head->content_length
                   ? NULL
                   : "content length";
    case HTTP_BODY_CHUNKED:
        return theirs->chunked && !theirs->length_given ? NULL : "chunked";
    case HTTP_BODY_CLOSE:
        return !theirs->chunked && !theirs->length_given ? NULL
                                                         : "body until close";
    }
    return "framing";
}

static const char *
compare_head(const struct http_head *head, const struct http_llhttp *theirs,
             bool response)
{
    const char *fault;

    if (!theirs->head_done) {
        return "llhttp's head is not done";
    }
    if (head->minor != theirs->minor) {
        return "version";
    }
    if (response) {
        if (head->status != theirs->status) {
            return "status";
        }
    } else if (!slice_equal(head->method, slice_of(theirs->method))) {
        return "method";
    } else if (!slice_equal(head->target, theirs->target)) {
        return "target";
    }
    fault = compare_headers(head, theirs);
    if (fault == NULL) {
        fault = compare_framing(head, theirs);
    }
    if (fault == NULL && theirs->folded) {
        fault = "folded value";
    }
    return fault;
}

/* llhttp 8.1 wants "\r" or ";" after the ";" that ends an unquoted value. */
static bool
takes_one_extension(const struct http_llhttp *theirs, struct slice bytes)
{
    return theirs->error != NULL && theirs->size_bad && theirs->error_at != 0 &&
           bytes.ptr[theirs->error_at - 1] == ';';
}

/* bytes: head and body. */
static const char *
compare_body(const struct ours *ours, const struct http_llhttp *theirs,
             size_t head_bytes, struct slice bytes)
{
    if (takes_one_extension(theirs, bytes)) {
        return NULL;
    }
    if (theirs->error != NULL) {
        return "llhttp refuses the body";
    }
    if (ours->done != theirs->done) {
        return "whether the message ended";
    }
    if (!slice_equal(buf_slice(&ours->body), buf_slice(&theirs->body))) {
        return "bytes of the body";
    }
    if (ours->done && head_bytes + ours->used != theirs->used) {
        return "where the message ended";
    }
    return NULL;
}

static int
parse(struct slice bytes, bool response, enum http_method to_method,
      struct http_head *head)
{
    return response
               ? http_head_parse_response(bytes.ptr, bytes.len, &limits,
                                          to_method, head)
               : http_head_parse_request(bytes.ptr, bytes.len, &limits, head);
}

/*
 * Prefixes of the input, all of a short one: they want more until there is a
 * verdict, which then is that on the whole input, at the same byte.
 */
static const char *
check_prefixes(struct slice bytes, bool response, enum http_method to_method,
               int outcome, const struct http_head *whole)
{
    size_t step = 1 + bytes.len / PREFIXES_MAX;
    struct http_head head;
    bool judged = false;

    for (size_t len = 0; len < bytes.len; len += step) {
        struct slice prefix = {.ptr = bytes.ptr, .len = len};
        int so_far = parse(prefix, response, to_method, &head);

        if (so_far == HTTP_E_MORE && !judged &&
            (outcome != 0 || len < whole->size_bytes)) {
            continue;
        }
        judged = true;
        if (so_far != outcome || head.size_bytes != whole->size_bytes ||
            head.fault != whole->fault || head.fault_at != whole->fault_at) {
            return "the verdict depends on where the head is cut";
        }
    }
    return NULL;
}

static void
count(struct http_differ_counts *counts, int outcome, bool theirs_done)
{
    if (counts == NULL) {
        return;
    }
    counts->accepted += outcome == 0;
    counts->more += outcome == HTTP_E_MORE;
    counts->stricter += outcome > HTTP_E_MORE && theirs_done;
    counts->refused += outcome > HTTP_E_MORE && !theirs_done;
}

/* llhttp takes Proxy-Connection for Connection. */
static const char *
compare_end(const struct http_head *head, const struct http_llhttp *theirs)
{
    return theirs->done && head->keep_alive && !theirs->keep_alive &&
                   http_head_find(head, HTTP_FIELD_PROXY) == NULL
               ? "keeps a connection that llhttp closes"
               : NULL;
}

static const char *
compare(struct slice bytes, bool response, const struct http_head *head,
        const struct http_llhttp *theirs)
{
    struct slice rest = {.ptr = bytes.ptr + head->size_bytes,
                         .len = bytes.len - head->size_bytes};
    struct ours ours = {0};
    const char *fault;

    if (!response && theirs->method_unknown && head->method_id == HTTP_OTHER) {
        return NULL;
    }
    fault = compare_head(head, theirs, response);
    if (fault != NULL) {
        return fault;
    }
    buf_init(&ours.body, BODY_BYTES_MAX);
    read_body(&ours, head, rest);
    if (!ours.bad) {
        fault = compare_body(&ours, theirs, head->size_bytes, bytes);
        fault = fault != NULL ? fault : compare_end(head, theirs);
    }
    buf_fini(&ours.body);
    return fault;
}

static const char *
differ(struct slice bytes, bool response, enum http_method to_method,
       struct http_differ_counts *counts)
{
    struct http_head head;
    struct http_llhttp theirs;
    int outcome = parse(bytes, response, to_method, &head);
    const char *fault = NULL;

    http_llhttp_read(&theirs, bytes, response, to_method == HTTP_HEAD,
                     response);
    count(counts, outcome, theirs.done);
    if (outcome == HTTP_E_MORE && theirs.done) {
        fault = "llhttp is done where ours wants more";
    } else if (outcome == 0) {
        fault = compare(bytes, response, &head, &theirs);
    }
    if (fault == NULL) {
        fault = check_prefixes(bytes, response, to_method, outcome, &head);
    }
    buf_fini(&theirs.body);
    return fault;
}

const char *
http_differ_request(struct slice bytes, struct http_differ_counts *counts)
{
    return differ(bytes, false, HTTP_OTHER, counts);
}

const char *
http_differ_response(struct slice bytes, enum http_method to_method,
                     struct http_differ_counts *counts)
{
    return differ(bytes, true, to_method, counts);
}

/* Reads bytes cut at one place with both functions, and compares. */
static const char *
check_cut(struct slice bytes, size_t cut, const struct ours *whole)
{
    struct http_chunk next = {0};
    struct http_chunk walk = {0};
    struct ours ours = {0};
    size_t taken = 0;
    size_t more = 0;
    const char *fault = NULL;
    int outcome = http_chunk_walk(&walk, bytes.ptr, cut, &taken);

    buf_init(&ours.body, BODY_BYTES_MAX);
    read_chunks(&ours, &next, (struct slice){.ptr = bytes.ptr, .len = cut});
    if (!ours.done && !ours.bad) {
        struct slice rest = {.ptr = bytes.ptr + cut, .len = bytes.len - cut};

        read_chunks(&ours, &next, rest);
        outcome = http_chunk_walk(&walk, rest.ptr, rest.len, &more);
    }
    if (ours.done != whole->done || ours.bad != whole->bad ||
        ours.used != whole->used ||
        !slice_equal(buf_slice(&ours.body), buf_slice(&whole->body))) {
        fault = "a cut changes what a chunked body is";
    } else if ((outcome == 0) != ours.done ||
               (outcome == HTTP_CHUNK_E_BAD) != ours.bad ||
               taken + more != ours.used) {
        fault = "walking and reading a chunked body differ";
    }
    buf_fini(&ours.body);
    return fault;
}

const char *
http_differ_chunk(struct slice bytes, size_t cut,
                  struct http_differ_counts *counts)
{
    static const struct slice head =
        SLICE("POST / HTTP/1.1\r\nHost: a\r\n"
              "Transfer-Encoding: chunked\r\n\r\n");
    struct http_chunk chunk = {0};
    struct http_llhttp theirs;
    struct ours ours = {0};
    struct buf wire;
    const char *fault;
    int outcome;

    buf_init(&wire, BODY_BYTES_MAX);
    buf_init(&ours.body, BODY_BYTES_MAX);
    buf_add_slice(&wire, head);
    buf_add_slice(&wire, bytes);
    read_chunks(&ours, &chunk, bytes);
    http_llhttp_read(&theirs, buf_slice(&wire), false, false, false);
    outcome = ours.bad ? HTTP_E_BAD : ours.done ? 0 : HTTP_E_MORE;
    count(counts, outcome, theirs.done);
    fault = ours.bad ? NULL
                     : compare_body(&ours, &theirs, head.len, buf_slice(&wire));
    if (fault == NULL) {
        fault = check_cut(bytes, cut % (bytes.len + 1), &ours);
    }
    buf_fini(&theirs.body);
    buf_fini(&ours.body);
    buf_fini(&wire);
    return fault;
}
