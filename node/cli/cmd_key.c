/* `kvasir key`: makes a client's key. */
#include <stdio.h>
#include <uv.h>

#include "node/cli/cli_print_internal.h"
#include "node/cli/cmd_internal.h"
#include "node/keys/keys_check.h"

static const char help[] =
    "usage: kvasir key\n"
    "\n"
    "Makes a key for a client, of 256 random bits, and prints two lines: the\n"
    "key, which its client sends and nobody else needs to keep, and what the\n"
    "file of keys.file keeps of it, from which no key can be found again.\n"
    "\n"
    "  -h, --help  this text\n"
    "\n"
    "The file names the tenants, who may have several keys each, and the "
    "models\n"
    "that a tenant may use, all if none are named; a * at the end stands for\n"
    "all that begin so:\n"
    "\n"
    "  tenants:\n"
    "    research:\n"
    "      keys:\n"
    "        - 9f2c41d07a83:sha256:...\n"
    "    shop:\n"
    "      models: [qwen3-8b, 'bge-*']\n"
    "      keys:\n"
    "        - 07be55a1c2f4:sha256:...\n"
    "        - d4a90c36e81b:sha256:...\n"
    "\n"
    "A tenant with models may send JSON bodies that name one of them, and\n"
    "nothing else. An adapter of SGLang is its own where the list has ADAPTER\n"
    "or BASE:ADAPTER; beside the model (lora_path) it wants the model, too.\n"
    "Adapters that have no such name (lists of them, lora_request of\n"
    "TensorRT-LLM, lora of llama.cpp) are for tenants without models.\n"
    "While no worker has room, tenants' requests wait in turns. weight: N (1)\n"
    "is a tenant's part of the tokens; priority: N (0, from -4 to 3) is that "
    "of\n"
    "its requests, the lower first. A request that says priority cannot go\n"
    "before it, nor at an engine before those that say none (SGLang: with\n"
    "--schedule-low-priority-values-first).\n"
    "isolation: strict keeps a tenant's prompts apart from others' in "
    "engines'\n"
    "caches, by cache salts that are made of isolation_secret, 64 hex digits\n"
    "beside tenants, the same on all nodes (openssl rand -hex 32).\n"
    "residency: [eu, us/east] bounds where its requests go: to workers of "
    "these\n"
    "islands and those below them, whatever fails.\n"
    "limits bounds what all nodes of a mesh let through for a tenant, in any\n"
    "second, minute or hour, and how much at one time; further requests are\n"
    "answered 429. Without it the limits.tenant_* of the configuration hold:\n"
    "\n"
    "      limits: {requests: 600/min, tokens: 200000/min, concurrent: 16,\n"
    "               models: {'bge-*': {tokens: 1000000/min}}}\n"
    "\n"
    "A running node reads the file again with its configuration (SIGHUP, or\n"
    "POST /admin/reload). `kvasir check --keys.file FILE` checks it.\n"
    "\n"
    "examples:\n"
    "  kvasir key\n"
    "  kvasir serve --keys.file keys.yaml --worker http://10.0.0.1:8000\n"
    "  curl -H 'Authorization: Bearer kvk-...' "
    "http://localhost:8080/v1/models\n";

struct request {
    bool help;
};

static const struct flag table[] = {
    {.name = "help",
     .kind = FLAG_SWITCH,
     .at = offsetof(struct request, help),
     .letter = 'h'},
};

static const struct flags flags = {table, sizeof table / sizeof table[0]};

int
cmd_key(char *const *argv)
{
    struct request wanted = {.help = false};
    struct keys_checker *checker = NULL;
    uint8_t random[KEYS_RANDOM_BYTES];
    char key[KEYS_KEY_ROOM];
    char line[KEYS_LINE_ROOM];
    char text[KEYS_KEY_ROOM + KEYS_LINE_ROOM + 2];

    if (!cli_parse("key", &flags, &wanted, argv)) {
        return CMD_USAGE;
    }
    if (wanted.help) {
        return cli_print("key", SLICE(help));
    }
    int error = uv_random(NULL, NULL, random, sizeof random, 0, NULL);
    if (error == 0) {
        error = keys_checker_new(&checker);
    }
    if (error == 0) {
        error = keys_make(checker, random, key, line);
    }
    keys_checker_free(checker);
    if (error < 0) {
        (void)fprintf(stderr, "kvasir key: no random bytes, or no SHA-256\n");
        return CMD_FAILED;
    }
    (void)snprintf(text, sizeof text, "%s\n%s\n", key, line);
    return cli_print("key", slice_of(text));
}
