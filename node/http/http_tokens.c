/* Tokens of a port: their file, and whether a request carries one. */
#include "node/http/http_tokens.h"

#include <errno.h>
#include <string.h>

#include "node/base/file.h"

/* Visible ASCII: what a header can carry as one word. */
static bool
is_word(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] <= ' ' || s.ptr[i] >= 0x7F) {
            return false;
        }
    }
    return s.len != 0;
}

/* The next word of a line; empty at its end. */
static struct slice
take_word(struct slice *line)
{
    struct slice trimmed = slice_trim(*line);
    struct slice word = {.ptr = trimmed.ptr, .len = 0};

    while (word.len < trimmed.len && trimmed.ptr[word.len] != ' ' &&
           trimmed.ptr[word.len] != '\t') {
        word.len++;
    }
    *line = (struct slice){.ptr = trimmed.ptr + word.len,
                           .len = trimmed.len - word.len};
    return word;
}

static const char *
take_line(struct slice line, struct http_tokens *tokens)
{
    struct slice first = take_word(&line);
    struct slice second = take_word(&line);
    struct slice name = second.len != 0 ? first : SLICE("token");
    struct slice text = second.len != 0 ? second : first;

    if (first.len == 0 || first.ptr[0] == '#') {
        return NULL;
    }
    struct slice role = take_word(&line);
    bool joins = slice_equal(role, SLICE("join"));
    if ((role.len != 0 && !joins) || take_word(&line).len != 0 ||
        !is_word(name) || !is_word(text) || name.len >= HTTP_TOKEN_NAME_MAX) {
        return "lines of NAME TOKEN, or NAME TOKEN join, in ASCII";
    }
    if (text.len < HTTP_TOKEN_MIN || text.len > HTTP_TOKEN_MAX) {
        return "tokens of 16 to 128 characters (openssl rand -hex 32)";
    }
    if (tokens->count == HTTP_TOKENS_MAX) {
        return "at most 32 tokens";
    }
    struct http_token *token = &tokens->token[tokens->count++];
    *token = (struct http_token){.name = "", .joins = joins};
    memcpy(token->name, name.ptr, name.len);
    memcpy(token->text, text.ptr, text.len);
    return NULL;
}

_Static_assert(HTTP_TOKENS_MAX == 32 && HTTP_TOKEN_MIN == 16 &&
                   HTTP_TOKEN_MAX == 128,
               "as the texts say");

const struct http_token *
http_tokens_operator(const struct http_tokens *tokens)
{
    CHECK(tokens->count <= HTTP_TOKENS_MAX);
    for (uint32_t i = 0; i < tokens->count; i++) {
        if (!tokens->token[i].joins) {
            return &tokens->token[i];
        }
    }
    return NULL;
}

const char *
http_tokens_read(struct slice bytes, struct http_tokens *tokens)
{
    struct http_tokens read = {.count = 0};

    while (bytes.len != 0) {
        struct slice line = slice_trim(slice_take(&bytes, '\n'));
        if (line.len != 0 && line.ptr[line.len - 1] == '\r') {
            line.len--;
        }
        const char *want = take_line(line, &read);
        if (want != NULL) {
            return want;
        }
    }
    if (http_tokens_operator(&read) == NULL) {
        return "an operator's token (openssl rand -hex 32)";
    }
    *tokens = read;
    return NULL;
}

int
http_tokens_load(const char *path, struct http_tokens *tokens,
                 const char **want)
{
    char bytes[HTTP_TOKENS_FILE_MAX + 1];
    ssize_t len = file_read(path, bytes, sizeof bytes);

    *want = NULL;
    if (len < 0) {
        return (int)len;
    }
    *want = (size_t)len > HTTP_TOKENS_FILE_MAX
                ? "a file of at most 16 KiB"
                : http_tokens_read((struct slice){bytes, (size_t)len}, tokens);
    return *want == NULL ? 0 : -EINVAL;
}

bool
http_tokens_bearer(const struct http_head *head, struct slice *text)
{
    const struct http_header *header =
        http_head_find(head, HTTP_FIELD_AUTHORIZATION);
    uint32_t bit = UINT32_C(1) << HTTP_FIELD_AUTHORIZATION;

    if (header == NULL || (head->fields_repeated & bit) != 0) {
        return false;
    }
    *text = header->value;
    struct slice scheme = take_word(text);
    *text = slice_trim(*text);
    return slice_equal_nocase(scheme, SLICE("Bearer"));
}

/* 0: equal. Looks at every byte of both, whatever they are. */
static unsigned
difference(const char a[HTTP_TOKEN_MAX + 1], const char b[HTTP_TOKEN_MAX + 1])
{
    volatile unsigned sum = 0;

    for (size_t i = 0; i <= HTTP_TOKEN_MAX; i++) {
        sum |= (unsigned char)a[i] ^ (unsigned char)b[i];
    }
    return sum;
}

static const struct http_token *
find(const struct http_tokens *tokens, struct slice text)
{
    char given[HTTP_TOKEN_MAX + 1] = "";
    const struct http_token *found = NULL;

    CHECK(tokens->count <= HTTP_TOKENS_MAX);
    if (text.len == 0 || text.len > HTTP_TOKEN_MAX) {
        return NULL;
    }
    memcpy(given, text.ptr, text.len);
    for (uint32_t i = 0; i < tokens->count; i++) {
        if (difference(tokens->token[i].text, given) == 0) {
            found = &tokens->token[i];
        }
    }
    return found;
}

const char *
http_tokens_name(const struct http_tokens *tokens, struct slice text)
{
    const struct http_token *token = find(tokens, text);

    return token != NULL && !token->joins ? token->name : NULL;
}

const struct http_token *
http_tokens_find(const struct http_tokens *tokens, const struct http_head *head)
{
    struct slice text;

    return http_tokens_bearer(head, &text) ? find(tokens, text) : NULL;
}
