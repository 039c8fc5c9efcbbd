/* The flags of kvasir-load and its manual. */
#include "chaos/load/load_options_internal.h"

#include <inttypes.h>
#include <stdio.h>

#define AT(member) offsetof(struct load_options, member)

/* clang-format off */
static const struct flag table[] = {
    {"url", FLAG_URL, AT(url), 0, 0, "URL", "http://127.0.0.1:8080",
     "what to load; requests go to\n"
     "URL/v1/chat/completions"},
    {"model", FLAG_TEXT, AT(model), 0, 0, "NAME", "kvasir/stand-in",
     "model to ask for"},
    {"users", FLAG_COUNT, AT(users), 1, 100000, "N", "16",
     "conversations at a time"},
    {"conversations", FLAG_COUNT, AT(conversations), 1, 1e6, "N", "64",
     "conversations in total"},
    {"turns", FLAG_COUNT, AT(turns), 1, 1000, "N", "6",
     "requests of one conversation"},
    {"groups", FLAG_COUNT, AT(groups), 0, 1e6, "N", "8",
     "different system prompts; each conversation draws\n"
     "one; 0: none"},
    {"system-bytes", FLAG_COUNT, AT(system_bytes), 0, 1 << 22, "N", "4000",
     "size of a system prompt"},
    {"user-bytes", FLAG_COUNT, AT(user_bytes), 0, 1 << 20, "N", "400",
     "mean size of a user's message; varies by half"},
    {"max-tokens", FLAG_COUNT, AT(max_tokens), 1, 1 << 20, "N", "64",
     "longest answer"},
    {"think-ms", FLAG_COUNT, AT(think_ms), 0, 86400000, "MS", "1000",
     "mean pause before a user speaks, exponential"},
    {"timeout-ms", FLAG_COUNT, AT(timeout_ms), 1, 86400000, "MS", "60000",
     "time limit of a whole answer"},
    {"connect-ms", FLAG_COUNT, AT(connect_ms), 1, 86400000, "MS", "2000",
     "time limit for an address to accept"},
    {"retries", FLAG_COUNT, AT(retries), 0, LOAD_RETRIES_MAX, "N", "2",
     "times a request that got no byte of an answer is\n"
     "sent again, to the next address of the name"},
    {"resolver", FLAG_SERVER, AT(resolver), 0, 0, "IP:PORT", NULL,
     "DNS server to ask (IPv4); default: the system's"},
    {"seed", FLAG_COUNT, AT(seed), 0, 9e15, "N", "1",
     "seed of all texts and pauses"},
    {"json", FLAG_SWITCH, AT(json), 0, 0, NULL, NULL,
     "print the result as one JSON object"},
    {"help", FLAG_SWITCH, AT(help), 0, 0, NULL, NULL, "this text"},
};
/* clang-format on */

static const struct flags flags = {table, sizeof(table) / sizeof(table[0])};

int
load_options_parse(struct load_options *options, char **argv, char *fault,
                   size_t fault_size)
{
    *options = (struct load_options){.help = false};
    int r = flags_parse(&flags, options, argv + 1, fault, fault_size);
    if (r == 0 && options->conversations * options->turns > LOAD_REQUESTS_MAX) {
        (void)snprintf(fault, fault_size,
                       "--conversations times --turns is %" PRIu64
                       ", at most %d are counted",
                       options->conversations * options->turns,
                       LOAD_REQUESTS_MAX);
        return FLAGS_E_BAD;
    }
    return r;
}

static const char manual_head[] =
    "kvasir-load: simulates many people who talk to an assistant.\n"
    "\n"
    "Each user opens a conversation, thinks, speaks, waits for the streamed\n"
    "answer, and speaks again. Like chat clients, each turn sends the whole\n"
    "conversation so far. Conversations of one group begin with the same "
    "system\n"
    "prompt. All texts and pauses come from the seed, so two runs say the "
    "same,\n"
    "whatever answers at the URL.\n"
    "\n"
    "usage: kvasir-load [--FLAG VALUE]...\n"
    "\n";

static const char manual_tail[] =
    "\n"
    "A name in the URL stands for all its addresses: each request goes to one\n"
    "of them, and to the next if that fails.\n"
    "\n"
    "The result appears on stdout when the last conversation is over; "
    "progress\n"
    "goes to stderr.\n"
    "  requests  each was answered or failed: connect, timeout, status (not "
    "2xx),\n"
    "            severed (the connection closed too early), no_done (the "
    "stream\n"
    "            ended without [DONE]), bad (not a stream of answers). A "
    "failed\n"
    "            turn ends its conversation; its remaining turns are `not "
    "sent`\n"
    "  tokens    of answered requests, from their `usage`; cached: prompt "
    "tokens\n"
    "            that an engine found in its cache\n"
    "  retried   requests sent again because nobody accepted them or the\n"
    "            connection closed before the first byte of an answer\n"
    "  TTFT      time to first token: from sending to the first content\n"
    "  whole     time from sending to the end of the answer\n"
    "  workers   requests per worker, from the x-kvasir-worker header, which\n"
    "            nodes send with --placement-headers on\n"
    "  nodes     requests per node, from the x-kvasir-node header\n"
    "  seconds   (--json) sent, answered, failed, and tokens by the second in\n"
    "            which a request ended\n"
    "\n"
    "Exit codes: 0 it ran to its end, whatever failed on the way; 1 it could "
    "not\n"
    "run, or SIGINT or SIGTERM stopped it (it prints the result so far); 2 "
    "bad\n"
    "usage.\n";

void
load_options_help(struct buf *out)
{
    buf_add_text(out, manual_head);
    flags_help(&flags, out);
    buf_add_text(out, manual_tail);
}

struct load_script
load_options_script(const struct load_options *options)
{
    return (struct load_script){
        .seed = options->seed,
        .groups = (uint32_t)options->groups,
        .system_bytes = (uint32_t)options->system_bytes,
        .user_bytes = (uint32_t)options->user_bytes,
        .think_us = options->think_ms * 1000,
    };
}
