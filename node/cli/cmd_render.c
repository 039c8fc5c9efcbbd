/* `kvasir render`: the text that a chat template makes of a request. */
#include <errno.h>
#include <stdio.h>

#include "node/base/file.h"
#include "node/cli/cli_print_internal.h"
#include "node/cli/cmd_internal.h"
#include "node/route/route_local.h"
#include "node/template/template_chat.h"

#define BODY_MAX   ((size_t)64 << 20)
#define CONFIG_MAX ((size_t)32 << 20)
#define PATH_SIZE  4096

static const char help[] =
    "usage: kvasir render --files DIR < REQUEST.json\n"
    "       kvasir render --template FILE [--files DIR] < REQUEST.json\n"
    "\n"
    "Renders a chat request with a model's chat template, as the engine "
    "would,\n"
    "and prints the text as it is, without a newline behind it. Of the "
    "request\n"
    "count messages, tools, documents, add_generation_prompt (default: true),\n"
    "continue_final_message, reasoning_effort and chat_template_kwargs.\n"
    "\n"
    "  --files DIR      a model's folder: tokenizer_config.json, for the "
    "special\n"
    "                   tokens and the template, and chat_template.jinja, "
    "which\n"
    "                   goes before\n"
    "  --template FILE  a Jinja template to use instead\n"
    "  -h, --help       this text\n"
    "\n"
    "Exit code 1: the template refused the request, or cannot be used; stderr "
    "has\n"
    "the template's line.\n"
    "\n"
    "examples:\n"
    "  kvasir render --files /models/qwen3 < request.json\n"
    "  echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}' |\n"
    "      kvasir render --template chat_template.jinja\n";

struct request {
    const char *files;
    const char *template;
    bool help;
};

#define AT(member) offsetof(struct request, member)

static const struct flag table[] = {
    {.name = "files", .kind = FLAG_ANY, .at = AT(files)},
    {.name = "template", .kind = FLAG_ANY, .at = AT(template)},
    {.name = "help", .kind = FLAG_SWITCH, .at = AT(help), .letter = 'h'},
};

static const struct flags flags = {table, sizeof table / sizeof table[0]};

/* Reads a file. A missing one is empty when `optional`. False: it was told. */
static bool
read_file(const char *path, bool optional, struct buf *to)
{
    FILE *file = fopen(path, "rb");

    if (file == NULL) {
        if (optional && errno == ENOENT) {
            return true;
        }
        (void)fprintf(stderr, "kvasir render: cannot open %s\n", path);
        return false;
    }
    int error = file_read_all(file, to);
    (void)fclose(file);
    if (error != 0) {
        (void)fprintf(stderr, "kvasir render: %s %s\n", path,
                      to->failed ? "is too large" : "cannot be read");
    }
    return error == 0;
}

static bool
read_in(const char *folder, const char *name, struct buf *to)
{
    char path[PATH_SIZE];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);

    if (n < 0 || (size_t)n >= sizeof path) {
        (void)fprintf(stderr, "kvasir render: the path is too long\n");
        return false;
    }
    return read_file(path, true, to);
}

/* Tells a fault, with the template's line where it has one. */
static int
refuse(const struct template_error *error)
{
    if (error->line > 0) {
        (void)fprintf(stderr, "kvasir render: line %u of the template: %s\n",
                      (unsigned)error->line, error->text);
    } else {
        (void)fprintf(stderr, "kvasir render: %s\n", error->text);
    }
    return CMD_FAILED;
}

static int
render(const struct template_chat *chat, struct slice body)
{
    struct template_limits limits = TEMPLATE_LIMITS;
    struct template_clock now = route_local_clock();
    struct template_error error = {.line = 0};
    struct json_tree_fault fault;
    struct json_value request;
    struct arena arena;
    struct buf out;
    int code = CMD_USAGE;

    arena_init(&arena, limits.memory_bytes);
    buf_init(&out, limits.output_bytes);
    if (!json_tree_read(body, &arena, &request, &fault)) {
        (void)fprintf(stderr, "kvasir render: the request, at byte %zu: %s\n",
                      fault.at, fault.why);
    } else if (!template_chat_render(chat, &request, &limits, &now, &out,
                                     &error)) {
        code = refuse(&error);
    } else {
        code = cli_print_buf("render", &out);
    }
    buf_fini(&out);
    arena_fini(&arena);
    return code;
}

/* Reads the files into the buffers, then stdin. */
static bool
read_inputs(const struct request *wanted, struct buf *config,
            struct buf *source, struct buf *body)
{
    if (wanted->files != NULL &&
        !read_in(wanted->files, "tokenizer_config.json", config)) {
        return false;
    }
    if (wanted->template != NULL) {
        if (!read_file(wanted->template, false, source)) {
            return false;
        }
    } else if (!read_in(wanted->files, "chat_template.jinja", source)) {
        return false;
    }
    int error = file_read_all(stdin, body);
    if (error != 0 || body->len == 0) {
        (void)fprintf(stderr, "kvasir render: %s\n",
                      error == 0 ? "expected a request body on stdin"
                                 : "the request is too large or unreadable");
        return false;
    }
    return true;
}

int
cmd_render(char *const *argv)
{
    struct request wanted = {.files = NULL};
    struct template_error error = {.line = 0};
    struct template_chat *chat = NULL;
    struct buf config;
    struct buf source;
    struct buf body;
    int code = CMD_USAGE;

    if (!cli_parse("render", &flags, &wanted, argv)) {
        return CMD_USAGE;
    }
    if (wanted.help) {
        return cli_print("render", SLICE(help));
    }
    if (wanted.files == NULL && wanted.template == NULL) {
        (void)fprintf(stderr, "kvasir render: expected --files DIR or "
                              "--template FILE (see kvasir render --help)\n");
        return CMD_USAGE;
    }
    buf_init(&config, CONFIG_MAX);
    buf_init(&source, TEMPLATE_SOURCE_MAX + 65536);
    buf_init(&body, BODY_MAX + 65536);
    if (read_inputs(&wanted, &config, &source, &body)) {
        chat =
            template_chat_new(buf_slice(&config), buf_slice(&source), &error);
        code = chat != NULL ? render(chat, buf_slice(&body)) : refuse(&error);
    }
    template_chat_free(chat);
    buf_fini(&config);
    buf_fini(&source);
    buf_fini(&body);
    return code;
}
