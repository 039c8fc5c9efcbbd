#include "node/cli/cli_args.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "index/base/slice.h"
#include "node/text/quote.h"
#include "node/text/typo.h"

void
cli_args_init(struct cli_args *args, const struct cli_option *options,
              size_t options_count, int argc, char *const *argv)
{
    CHECK(argc >= 0);
    *args = (struct cli_args){.options = options,
                              .options_count = options_count,
                              .argv = argv,
                              .argc = argc};
}

__attribute__((format(printf, 2, 3))) static int
bad(struct cli_args *args, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    (void)vsnprintf(args->fault, sizeof args->fault, format, list);
    va_end(list);
    return CLI_ARGS_BAD;
}

static const struct cli_option *
find_name(const struct cli_args *args, struct slice name)
{
    for (size_t i = 0; i < args->options_count; i++) {
        if (slice_equal(slice_of(args->options[i].name), name)) {
            return &args->options[i];
        }
    }
    return NULL;
}

static int
unknown(struct cli_args *args, struct slice name, const char *dashes)
{
    char quoted[QUOTE_ROOM];
    struct typo typo = {.best = NULL};

    for (size_t i = 0; i < args->options_count; i++) {
        typo_offer(&typo, name, args->options[i].name);
    }
    (void)quote_text(name, quoted);
    quoted[strlen(quoted) - 1] = '\0'; /* without the quotes */
    return bad(args, "unknown option %s%s%s%s%s", dashes, quoted + 1,
               typo.best != NULL ? ", did you mean --" : "",
               typo.best != NULL ? typo.best : "",
               typo.best != NULL ? "?" : "");
}

/* The value of args->option: what was joined to it, or the next argument. */
static int
take_value(struct cli_args *args, const char *joined)
{
    if (!args->option->valued) {
        args->value = NULL;
        return joined == NULL
                   ? CLI_ARGS_OPTION
                   : bad(args, "--%s takes no value", args->option->name);
    }
    if (joined == NULL && args->at == args->argc) {
        return bad(args, "--%s needs a value", args->option->name);
    }
    args->value = joined != NULL ? joined : args->argv[args->at++];
    return CLI_ARGS_OPTION;
}

static int
take_long(struct cli_args *args, const char *text)
{
    const char *equals = strchr(text, '=');
    struct slice name = {
        text, equals != NULL ? (size_t)(equals - text) : strlen(text)};

    args->option = find_name(args, name);
    if (args->option == NULL) {
        return unknown(args, name, "--");
    }
    return take_value(args, equals != NULL ? equals + 1 : NULL);
}

static int
take_short(struct cli_args *args, const char *text)
{
    for (size_t i = 0; i < args->options_count; i++) {
        if (args->options[i].letter == text[0]) {
            args->option = &args->options[i];
            return take_value(args, text[1] != '\0' ? text + 1 : NULL);
        }
    }
    return unknown(args, slice_of(text), "-");
}

int
cli_args_next(struct cli_args *args)
{
    if (!args->operands_only && args->at < args->argc &&
        strcmp(args->argv[args->at], "--") == 0) {
        args->operands_only = true;
        args->at++;
    }
    if (args->at == args->argc) {
        return CLI_ARGS_END;
    }
    const char *text = args->argv[args->at++];
    if (args->operands_only || text[0] != '-' || text[1] == '\0') {
        args->value = text;
        return CLI_ARGS_OPERAND;
    }
    return text[1] == '-' ? take_long(args, text + 2)
                          : take_short(args, text + 1);
}
