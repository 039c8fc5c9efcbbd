/* `kvasir tokenize`: text on stdin, a model's token ids on stdout, or back. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "node/base/file.h"
#include "node/base/flags.h"
#include "node/cli/cli_print_internal.h"
#include "node/cli/cmd_internal.h"
#include "node/text/json_out.h"
#include "node/tokenizer/tokenizer.h"

#define PATH_BYTES 4096
#define IDS_MAX    ((size_t)64 << 20)
#define OUT_MAX    ((size_t)1 << 30)

static const char help[] =
    "usage: kvasir tokenize --files DIR [--decode] [--special on|off] "
    "[--json]\n"
    "\n"
    "Turns the text on stdin into token ids, exactly as the model's own\n"
    "tokenizer does, and prints them on one line. Bytes that are not UTF-8\n"
    "become U+FFFD first.\n"
    "\n"
    "  --files DIR       a model's folder with its tokenizer.json, or a file:\n"
    "                    a tokenizer.json, or a .tiktoken file\n"
    "  --pattern TEXT    how a .tiktoken file cuts words: a regular "
    "expression,\n"
    "                    or gpt2, cl100k_base, o200k_base, qwen. Without it\n"
    "                    the file's name must be one of these\n"
    "  --decode          the other way: ids on stdin, text on stdout\n"
    "  --special on|off  with the model's special tokens around the text;\n"
    "                    with --decode, show them; default on\n"
    "  --json            print JSON: {\"ids\":[...]} or {\"text\":\"...\"}\n"
    "  -h, --help        this text\n"
    "\n"
    "examples:\n"
    "  echo -n 'Hello there' | kvasir tokenize --files /models/qwen3\n"
    "  echo 9707 1052 | kvasir tokenize --files /models/qwen3 --decode\n";

struct request {
    const char *files;
    const char *pattern;
    uint32_t special; /* 0 on, 1 off */
    bool decode;
    bool json;
    bool help;
};

#define AT(member) offsetof(struct request, member)

static const struct flag table[] = {
    {.name = "files", .kind = FLAG_ANY, .at = AT(files)},
    {.name = "pattern", .kind = FLAG_ANY, .at = AT(pattern)},
    {.name = "special",
     .kind = FLAG_CHOICE,
     .at = AT(special),
     .value = "on|off",
     .preset = "on"},
    {.name = "decode", .kind = FLAG_SWITCH, .at = AT(decode)},
    {.name = "json", .kind = FLAG_SWITCH, .at = AT(json)},
    {.name = "help", .kind = FLAG_SWITCH, .at = AT(help), .letter = 'h'},
};

static const struct flags flags = {table, sizeof table / sizeof table[0]};

static int
refuse(int code, const char *why, const char *about)
{
    (void)fprintf(stderr, "kvasir tokenize: %s%s\n", why, about);
    return code;
}

/* Reads a file: 0 or -errno; it is too large where *out has failed. */
static int
read_file(const char *path, struct buf *out)
{
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        return -errno;
    }
    int error = file_read_all(file, out);
    (void)fclose(file);
    return error;
}

/* The name of a .tiktoken file without folder and ending, for its pattern. */
static struct slice
name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct slice name = slice_of(slash != NULL ? slash + 1 : path);
    const char *dot = name.len > 0 ? memchr(name.ptr, '.', name.len) : NULL;

    if (dot != NULL) {
        name.len = (size_t)(dot - name.ptr);
    }
    return name;
}

static struct tokenizer *
make(const struct request *request, const char *path, struct slice bytes,
     char *why)
{
    struct slice pattern =
        request->pattern != NULL ? slice_of(request->pattern) : name_of(path);

    if (bytes.len > 0 && bytes.ptr[0] == '{') {
        return tokenizer_new(bytes, why);
    }
    return tokenizer_new_tiktoken(bytes, pattern, NULL, 0, why);
}

/* The tokenizer of --files, or NULL after a word. */
static struct tokenizer *
load(const struct request *request)
{
    char path[PATH_BYTES];
    char why[TOKENIZER_WHY_MAX];
    char reason[128];
    struct buf bytes;
    struct tokenizer *tokenizer = NULL;

    buf_init(&bytes, TOKENIZER_FILE_MAX + 65536);
    (void)snprintf(path, sizeof path, "%s/tokenizer.json", request->files);
    int rc = read_file(path, &bytes);
    if (rc == -ENOTDIR) {
        (void)snprintf(path, sizeof path, "%s", request->files);
        rc = read_file(path, &bytes);
    }
    if (rc != 0) {
        (void)fprintf(stderr, "kvasir tokenize: %s: %s\n", path,
                      bytes.failed ? "too large"
                                   : uv_strerror_r(rc, reason, sizeof reason));
    } else {
        tokenizer = make(request, path, buf_slice(&bytes), why);
        if (tokenizer == NULL) {
            (void)fprintf(stderr, "kvasir tokenize: %s: %s\n", path, why);
        }
    }
    buf_fini(&bytes);
    return tokenizer;
}

static void
put_ids(const struct tokenizer_ids *ids, bool json, struct buf *out)
{
    buf_add_text(out, json ? "{\"ids\":[" : "");
    for (size_t i = 0; i < ids->count; i++) {
        buf_add_text(out, i == 0 ? "" : json ? "," : " ");
        buf_add_uint(out, ids->ptr[i]);
    }
    buf_add_text(out, json ? "]}\n" : "\n");
}

static const char *
encode(const struct request *request, const struct tokenizer *tokenizer,
       struct slice text, struct buf *out)
{
    struct tokenizer_scratch *scratch = tokenizer_scratch_new(tokenizer);
    struct tokenizer_ids ids = {.max = IDS_MAX};
    int outcome = TOKENIZER_E_MEMORY;

    if (scratch != NULL) {
        outcome = tokenizer_encode(
            scratch, text,
            TOKENIZER_TRUNCATE |
                (request->special == 0 ? TOKENIZER_SPECIAL : 0),
            &ids);
    }
    if (outcome == TOKENIZER_OK) {
        put_ids(&ids, request->json, out);
    }
    tokenizer_ids_fini(&ids);
    tokenizer_scratch_free(scratch);
    return tokenizer_outcome_text(outcome);
}

/* Numbers with anything but digits between them, JSON included. */
static const char *
read_ids(struct slice text, struct tokenizer_ids *ids)
{
    ids->ptr = calloc(text.len / 2 + 1, sizeof ids->ptr[0]);
    if (ids->ptr == NULL) {
        return "out of memory";
    }
    for (size_t at = 0; at < text.len;) {
        uint64_t id = 0;
        size_t from = at;
        while (at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9') {
            id = id * 10 + (uint64_t)(text.ptr[at++] - '0');
            if (id > UINT32_MAX) {
                return "an id is too large";
            }
        }
        if (at > from) {
            ids->ptr[ids->count++] = (uint32_t)id;
        } else if (strchr(" \t\r\n,[]", text.ptr[at++]) == NULL) {
            return "expected ids on stdin: numbers with spaces or commas";
        }
    }
    return NULL;
}

static const char *
decode(const struct request *request, const struct tokenizer *tokenizer,
       struct slice text, struct buf *out)
{
    struct tokenizer_ids ids = {.max = IDS_MAX};
    struct buf decoded;
    struct json_out json;
    const char *fault = read_ids(text, &ids);

    buf_init(&decoded, OUT_MAX);
    if (fault == NULL && !tokenizer_decode(tokenizer, ids.ptr, ids.count,
                                           request->special != 0, &decoded)) {
        fault = "the text is too long";
    }
    if (request->json) {
        json_out_init(&json, out);
        json_out_object_begin(&json);
        json_out_put_slice(&json, "text", buf_slice(&decoded));
        json_out_object_end(&json);
        buf_add_text(out, "\n");
    } else {
        buf_add_slice(out, buf_slice(&decoded));
    }
    buf_fini(&decoded);
    tokenizer_ids_fini(&ids);
    return fault;
}

static int
run(const struct request *request, const struct tokenizer *tokenizer)
{
    struct buf text;
    struct buf out;
    int code = CMD_FINE;

    buf_init(&text, TOKENIZER_TEXT_MAX * 12);
    buf_init(&out, OUT_MAX);
    if (file_read_all(stdin, &text) != 0) {
        code = refuse(CMD_FAILED,
                      "stdin: ", text.failed ? "too large" : "cannot be read");
    } else {
        const char *fault =
            request->decode
                ? decode(request, tokenizer, buf_slice(&text), &out)
                : encode(request, tokenizer, buf_slice(&text), &out);
        code = fault != NULL ? refuse(CMD_FAILED, fault, "")
                             : cli_print("tokenize", buf_slice(&out));
    }
    buf_fini(&text);
    buf_fini(&out);
    return code;
}

int
cmd_tokenize(char *const *argv)
{
    struct request request = {.files = NULL};
    char fault[FLAGS_FAULT_MAX];

    if (flags_parse(&flags, &request, argv, fault, sizeof fault) != 0) {
        return refuse(CMD_USAGE, fault, "");
    }
    if (request.help) {
        return cli_print("tokenize", SLICE(help));
    }
    if (request.files == NULL) {
        return refuse(CMD_USAGE, "--files is missing", " (see --help)");
    }
    if (request.pattern != NULL && request.pattern[0] == '\0') {
        return refuse(CMD_USAGE, "--pattern is empty", "");
    }
    struct tokenizer *tokenizer = load(&request);
    if (tokenizer == NULL) {
        return CMD_USAGE;
    }
    int code = run(&request, tokenizer);
    tokenizer_free(tokenizer);
    return code;
}
