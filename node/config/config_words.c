/* The keys to tune first, and the words of the reference. */
#include "node/config/config_words_internal.h"

static const struct config_word first[] = {
    {"tokens.dir",
     "Give the models' own files, and prompts are matched token by token "
     "without asking engines. kvasir_tokens_late_total tells of prompts whose "
     "tokens came too late."},
    {"policy.recompute_weight",
     "Raise it when cached_tokens of the answers fall short of the overlap "
     "that kvasir explain shows elsewhere; lower it when requests wait at one "
     "worker while others rest."},
    {"workers.max_inflight",
     "Leave it at 0, and the node learns it where engines have metrics; give "
     "a number where they have none, so that requests wait here, in fair "
     "turns, and not in an engine."},
    {"timeouts.first_byte",
     "Above the longest prefill that you allow, waiting in the engine "
     "included: what takes longer is begun again at another worker."},
    {"slo.ttft",
     "The time to the first token that you promise: a prefix is computed "
     "again elsewhere rather than waited for longer."},
};

static const struct config_word words[] = {
    {"affinity", "A request goes to the worker with its longest prefix."},
    {"balance", "A request goes elsewhere because of the load."},
    {"belief", "What a worker without events probably holds: what was sent "
               "there."},
    {"block", "A run of tokens, or of text, of fixed length: what caches are "
              "made of."},
    {"events", "What an engine tells of its cache: block stored, block "
               "removed."},
    {"island", "Workers that are near to each other; a label."},
    {"lane", "A thread that serves requests."},
    {"ledger", "Which block an engine means by its own name of it."},
    {"mirror", "Which worker holds which block, exactly as events say."},
    {"node", "A process of kvasir serve; all that are connected are a mesh."},
    {"overlap", "How much of a prompt a worker holds."},
    {"pool", "Workers of one context length."},
    {"prefix", "How a prompt begins, up to any of its blocks."},
    {"rank", "A data-parallel part of a worker, with a cache of its own."},
    {"replay", "Where an engine repeats events that were missed."},
    {"session", "Requests that a client says belong together."},
    {"snapshot", "What a node saves, to begin from after a restart."},
    {"tenant", "Whose a request is, by its key or token."},
    {"worker", "An engine, by the URL of its API."},
};

const struct config_word *
config_words_first(size_t at)
{
    return at < sizeof first / sizeof first[0] ? &first[at] : NULL;
}

const struct config_word *
config_words_meaning(size_t at)
{
    return at < sizeof words / sizeof words[0] ? &words[at] : NULL;
}
