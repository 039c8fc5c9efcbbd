#include "chaos/engine_options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum flag_kind {
    FLAG_TEXT,
    FLAG_HOST,
    FLAG_MODEL,
    FLAG_COUNT,
    FLAG_REAL,
    FLAG_HELP
};

struct flag {
    const char *name;
    enum flag_kind kind;
    size_t at; /* offset in struct engine_options */
    double min;
    double max;
    const char *value;  /* how the manual names it */
    const char *preset; /* the default, as it would be written */
    const char *help;
};

#define AT(member) offsetof(struct engine_options, member)

static const struct flag flags[] = {
    {"host", FLAG_HOST, AT(host), 0, 0, "ADDRESS", "127.0.0.1",
     "IP address to listen on"},
    {"port", FLAG_COUNT, AT(port), 0, 65535, "N", "8000",
     "port; 0: a free one"},
    {"model", FLAG_MODEL, 0, 0, 0, "NAME", "kvasir/stand-in",
     "model that it serves; may be repeated: further ones\n"
     "are adapters of the first"},
    {"name", FLAG_TEXT, AT(name), 0, 0, "NAME", "engine",
     "in its log and its answers"},
    {"blocks", FLAG_COUNT, AT(blocks), 1, 1U << 24, "N", "4096",
     "size of the prefix cache"},
    {"block-size", FLAG_COUNT, AT(block_size), 1, 1024, "N", "16",
     "tokens of one block"},
    {"max-running", FLAG_COUNT, AT(running_max), 1, 65536, "N", "128",
     "sequences in one batch"},
    {"max-batched-tokens", FLAG_COUNT, AT(batch_tokens_max), 1, 1U << 20, "N",
     "8192", "tokens of one step; chunks longer prompts"},
    {"max-requests", FLAG_COUNT, AT(requests_max), 1, 1U << 20, "N", "16384",
     "running and waiting; 503 above"},
    {"max-connections", FLAG_COUNT, AT(connections_max), 1, 1U << 20, "N",
     "16384", "of clients; 503 above"},
    {"max-model-len", FLAG_COUNT, AT(model_len_max), 0, 1U << 24, "N", "0",
     "tokens of prompt and answer; 400 above; 0: 32768, or\n"
     "what the blocks hold if that is less"},
    {"prefill-tps", FLAG_COUNT, AT(prefill_tokens_per_s), 1, 4e9, "N", "8000",
     "prompt tokens computed in a second"},
    {"step-ms", FLAG_REAL, AT(step_ms), 0, 1e6, "MS", "8", "time of a step"},
    {"step-per-seq-ms", FLAG_REAL, AT(step_per_seq_ms), 0, 1e6, "MS", "0.65",
     "time that each sequence in it adds"},
    {"jitter-permille", FLAG_COUNT, AT(jitter_permille), 0, 1000, "N", "0",
     "how much steps vary in time, either way"},
    {"speed", FLAG_REAL, AT(speed), 0.001, 1e6, "X", "1", "divides all times"},
    {"seed", FLAG_COUNT, AT(seed), 0, 9e15, "N", "1",
     "of the jitter and of the block hashes"},
    {"help", FLAG_HELP, 0, 0, 0, NULL, NULL, "this text"},
};

#define FLAGS_COUNT (sizeof(flags) / sizeof(flags[0]))

/* The flag that `arg` (behind its dashes) names; its value, if it holds one,
 * behind the '='. */
static const struct flag *
find_flag(const char *arg, const char **value)
{
    const char *equals = strchr(arg, '=');
    size_t len = equals != NULL ? (size_t)(equals - arg) : strlen(arg);

    for (size_t i = 0; i < FLAGS_COUNT; i++) {
        if (strlen(flags[i].name) == len &&
            strncmp(flags[i].name, arg, len) == 0) {
            *value = equals != NULL ? equals + 1 : NULL;
            return &flags[i];
        }
    }
    return NULL;
}

static bool
set_number(struct engine_options *options, const struct flag *flag,
           const char *value)
{
    char *at = (char *)options + flag->at;
    char *end;
    double number;

    errno = 0;
    number = strtod(value, &end);
    if (errno != 0 || end == value || *end != '\0' || !isfinite(number) ||
        number < flag->min || number > flag->max) {
        return false;
    }
    if (flag->kind == FLAG_REAL) {
        memcpy(at, &number, sizeof(number));
        return true;
    }
    uint64_t count = (uint64_t)number;
    memcpy(at, &count, sizeof(count));
    return (double)count == number;
}

/* Fit to stand in headers, JSON and metrics without escapes. */
static bool
is_plain(const char *text)
{
    const char *c = text;

    while (*c > ' ' && *c < 0x7f && *c != '"' && *c != '\\') {
        c++;
    }
    return *c == '\0' && c != text && c - text <= ENGINE_NAME_MAX;
}

static bool
is_address(const char *text)
{
    struct in6_addr unused;

    return inet_pton(AF_INET, text, &unused) == 1 ||
           inet_pton(AF_INET6, text, &unused) == 1;
}

static bool
set(struct engine_options *options, const struct flag *flag, const char *value)
{
    switch (flag->kind) {
    case FLAG_TEXT:
        memcpy((char *)options + flag->at, &value, sizeof(value));
        return is_plain(value);
    case FLAG_HOST:
        options->host = value;
        return is_address(value);
    case FLAG_MODEL:
        if (options->models_count == ENGINE_MODELS_MAX || !is_plain(value)) {
            return false;
        }
        options->models[options->models_count++] = value;
        return true;
    case FLAG_COUNT:
    case FLAG_REAL:
        return set_number(options, flag, value);
    case FLAG_HELP:
        options->help = true;
        return true;
    }
    return false;
}

static int
fault_value(const struct flag *flag, const char *value, char *fault,
            size_t size)
{
    switch (flag->kind) {
    case FLAG_COUNT:
    case FLAG_REAL:
        (void)snprintf(
            fault, size, "--%s: \"%s\" is not a%s number from %g to %.0f",
            flag->name, value, flag->kind == FLAG_COUNT ? " whole" : "",
            flag->min, flag->max);
        break;
    case FLAG_HOST:
        (void)snprintf(fault, size, "--%s: \"%s\" is not an IP address",
                       flag->name, value);
        break;
    case FLAG_TEXT:
    case FLAG_MODEL:
    case FLAG_HELP:
        (void)snprintf(fault, size,
                       "--%s: \"%s\" is not a plain name, or one "
                       "too many",
                       flag->name, value);
        break;
    }
    return ENGINE_OPTIONS_E_BAD;
}

static void
set_presets(struct engine_options *options)
{
    *options = (struct engine_options){.help = false};
    for (size_t i = 0; i < FLAGS_COUNT; i++) {
        if (flags[i].preset == NULL || flags[i].kind == FLAG_MODEL) {
            continue;
        }
        CHECK(set(options, &flags[i], flags[i].preset));
    }
}

/* One flag. next: the argument behind it, NULL at the end; *took_next: it was
 * taken as the flag's value. */
static int
take(struct engine_options *options, const char *arg, const char *next,
     bool *took_next, char *fault, size_t fault_size)
{
    const char *value = NULL;
    const struct flag *flag =
        strncmp(arg, "--", 2) == 0 ? find_flag(arg + 2, &value) : NULL;

    *took_next = false;
    if (flag == NULL) {
        (void)snprintf(fault, fault_size, "unknown argument \"%s\"; see --help",
                       arg);
        return ENGINE_OPTIONS_E_BAD;
    }
    if (flag->kind != FLAG_HELP && value == NULL) {
        *took_next = true;
        value = next;
    }
    if (flag->kind != FLAG_HELP && value == NULL) {
        (void)snprintf(fault, fault_size, "--%s: %s is missing", flag->name,
                       flag->value);
        return ENGINE_OPTIONS_E_BAD;
    }
    return set(options, flag, value)
               ? 0
               : fault_value(flag, value, fault, fault_size);
}

int
engine_options_parse(struct engine_options *options, int argc, char **argv,
                     char *fault, size_t fault_size)
{
    bool took_next;

    set_presets(options);
    for (int i = 1; i < argc; i += took_next ? 2 : 1) {
        int r =
            take(options, argv[i], argv[i + 1], &took_next, fault, fault_size);
        if (r != 0) {
            return r;
        }
    }
    if (options->models_count == 0) {
        options->models[options->models_count++] = "kvasir/stand-in";
    }
    return 0;
}

static const char manual_head[] =
    "kvasir-engine: an LLM engine without a GPU, to try routers on.\n"
    "\n"
    "It answers OpenAI requests with made-up words, but queues, batches, "
    "caches\n"
    "prefixes and takes its time as vLLM does: the same prompt gets the same\n"
    "words, a prompt whose beginning it has seen gets them sooner, and many\n"
    "requests at once make each of them slower. `usage` tells how many prompt\n"
    "tokens came from the cache.\n"
    "\n"
    "usage: kvasir-engine [--FLAG VALUE]...\n"
    "\n";

static const char manual_tail[] =
    "\n"
    "When it listens it prints `ready http=HOST:PORT` on stdout; the log goes "
    "to\n"
    "stderr. SIGTERM: finishes what it has begun and exits with 0. Exit "
    "codes:\n"
    "0 fine, 1 failed, 2 bad usage.\n"
    "\n"
    "endpoints\n"
    "  POST /v1/chat/completions, /v1/completions    `stream` or not; one "
    "choice,\n"
    "       always max_tokens (16) long\n"
    "  POST /v1/chat/completions/render, /v1/completions/render    the token "
    "ids\n"
    "  POST /v1/embeddings\n"
    "  POST /tokenize, /detokenize\n"
    "  POST /reset_prefix_cache    fails while requests run\n"
    "  GET  /v1/models, /health, /version, /metrics (vLLM's names)\n"
    "\n"
    "misbehaviour: POST /chaos with any of these members, as JSON; each stays\n"
    "until it is used up or set again; GET /chaos shows them\n"
    "  \"health\": 503               what GET /health answers; 200: healthy\n"
    "  \"fail_status\": 500          answer generation requests with this\n"
    "  \"fail_count\": N             ... the next N of them\n"
    "  \"hang_count\": N             take the next N, and never answer\n"
    "  \"die_after_tokens\": K       cut the connection behind K tokens\n"
    "  \"die_count\": N              ... of the next N requests\n"
    "  \"speed_percent\": P          from now on, of --speed\n"
    "  \"stall_ms\": T               freeze the whole process once, for T ms: "
    "it\n"
    "                              accepts, reads and sends nothing\n"
    "  \"exit\": CODE                leave at once, without goodbye\n"
    "Counts of 4294967295 never run out.\n";

static void
help_flag(const struct flag *flag, struct buf *out)
{
    char left[64];
    const char *line = flag->help;

    (void)snprintf(left, sizeof(left), "--%s %s", flag->name,
                   flag->value != NULL ? flag->value : "");
    while (line != NULL) {
        const char *end = strchr(line, '\n');
        int len = (int)(end != NULL ? (size_t)(end - line) : strlen(line));
        buf_printf(out, "  %-24s  %.*s", left, len, line);
        left[0] = '\0';
        if (end == NULL && flag->preset != NULL) {
            buf_printf(out, " (%s)", flag->preset);
        }
        buf_add_text(out, "\n");
        line = end != NULL ? end + 1 : NULL;
    }
}

void
engine_options_help(struct buf *out)
{
    buf_add_text(out, manual_head);
    for (size_t i = 0; i < FLAGS_COUNT; i++) {
        help_flag(&flags[i], out);
    }
    buf_add_text(out, manual_tail);
}

struct engine_config
engine_options_config(const struct engine_options *o)
{
    uint64_t room = o->blocks * o->block_size;
    uint64_t len = o->model_len_max != 0 ? o->model_len_max : 32768;

    return (struct engine_config){
        .blocks_max = (uint32_t)o->blocks,
        .block_tokens = (uint32_t)o->block_size,
        .running_max = (uint32_t)o->running_max,
        .batch_tokens_max = (uint32_t)o->batch_tokens_max,
        .requests_max = (uint32_t)o->requests_max,
        .request_tokens_max = (uint32_t)(len < room ? len : room),
        .prefill_tokens_per_s = (uint32_t)o->prefill_tokens_per_s,
        .step_us = (uint32_t)(o->step_ms * 1000),
        .step_per_seq_us = (uint32_t)(o->step_per_seq_ms * 1000),
        .step_jitter_permille = (uint32_t)o->jitter_permille,
    };
}
