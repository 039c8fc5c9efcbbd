/* The flags of kvasir-engine and its manual. */
#include "chaos/engine/engine_options_internal.h"

#include <stdio.h>

#include "chaos/engine/engine_events.h"
#include "index/index.h"

#define MODEL_PRESET "kvasir/stand-in"
#define AT(member)   offsetof(struct engine_options, member)

static const struct flag flags[] = {
    {"engine", FLAG_CHOICE, AT(make), 0, 0, ENGINE_MAKE_WORDS, "vllm",
     "whose rules, events and metrics it has"},
    {"host", FLAG_HOST, AT(host), 0, 0, "ADDRESS", "127.0.0.1",
     "IP address to listen on"},
    {"port", FLAG_COUNT, AT(port), 0, 65535, "N", "8000",
     "port; 0: a free one"},
    {"model", FLAG_LIST, AT(models), 0, ENGINE_SERVED_MAX, "NAME", MODEL_PRESET,
     "model to serve; if repeated, the further ones are\n"
     "adapters of the first",
     AT(models_count)},
    {"tokens", FLAG_ANY, AT(tokens), 0, 0, "DIR", NULL,
     "a model's own files, or a folder of models: prompts\n"
     "are tokenised by them, as vLLM does"},
    {"name", FLAG_TEXT, AT(name), 0, 0, "NAME", "engine",
     "its name in the log and in answers"},
    {"blocks", FLAG_COUNT, AT(blocks), 1, 1U << 24, "N", "4096",
     "blocks of the prefix cache"},
    {"block-size", FLAG_COUNT, AT(block_size), 0, 1024, "N", "0",
     "tokens of one block; 0: 16, trtllm's 32"},
    {"max-running", FLAG_COUNT, AT(running_max), 0, 65536, "N", "0",
     "sequences in one batch, which are llamacpp's slots;\n"
     "0: 128, llamacpp's 4, transformers' 1"},
    {"max-batched-tokens", FLAG_COUNT, AT(batch_tokens_max), 1, 1U << 20, "N",
     "8192", "tokens of one step; chunks longer prompts"},
    {"max-requests", FLAG_COUNT, AT(requests_max), 1, 1U << 20, "N", "16384",
     "requests running and waiting; 503 above"},
    {"max-connections", FLAG_COUNT, AT(connections_max), 1, 1U << 20, "N",
     "16384", "connections of clients; 503 above"},
    {"max-model-len", FLAG_COUNT, AT(model_len_max), 0, 1U << 24, "N", "0",
     "tokens of prompt and answer; 400 above; 0: 32768,\n"
     "or what the blocks hold if that is less"},
    {"prefill-tps", FLAG_COUNT, AT(prefill_tokens_per_s), 1, 4e9, "N", "8000",
     "prompt tokens computed per second"},
    {"step-ms", FLAG_REAL, AT(step_ms), 0, 1e6, "MS", "8",
     "duration of a step"},
    {"step-per-seq-ms", FLAG_REAL, AT(step_per_seq_ms), 0, 1e6, "MS", "0.65",
     "what each sequence in it adds to that"},
    {"jitter-permille", FLAG_COUNT, AT(jitter_permille), 0, 1000, "N", "0",
     "variation of the duration of steps"},
    {"speed", FLAG_REAL, AT(speed), 0.001, 1e6, "X", "1", "divides all times"},
    {"seed", FLAG_COUNT, AT(seed), 0, 9e15, "N", "1",
     "seed of the jitter and of the block hashes"},
    {"window", FLAG_COUNT, AT(window), 0, 1U << 20, "N", "0",
     "vllm: sliding windows of so many tokens, beside\n"
     "full attention; 0: none"},
    {"window-groups", FLAG_COUNT, AT(window_groups), 1, SHAPE_WINDOWS_MAX, "N",
     "1", "groups of the cache that are for windows"},
    {"eagle", FLAG_CHOICE, AT(eagle), 0, 0, "off|on", "off",
     "vllm: the last block that is found is computed\n"
     "again, as where EAGLE or MTP drafts; without\n"
     "windows"},
    {"lookahead", FLAG_COUNT, AT(lookahead), 0, SHAPE_AHEAD_MAX, "N", "0",
     "vllm: a block's hash covers so many tokens behind\n"
     "it, as since 0.33 where EAGLE or MTP drafts; 0:\n"
     "none"},
    {"ranks", FLAG_COUNT, AT(ranks), 1, ENGINE_RANKS_MAX, "N", "1",
     "engines behind one port, each with the sizes above;\n"
     "rank r adds r to the ports below"},
    {"events", FLAG_TEXT, AT(events), 0, 0, "P|URL", NULL,
     "publish cache events here: a port, or a ZeroMQ\n"
     "endpoint, tcp://ADDRESS:PORT; port 0: a free one"},
    {"replay", FLAG_TEXT, AT(replay), 0, 0, "P|URL", NULL,
     "replay missed events here"},
    {"event-topic", FLAG_TEXT, AT(event_topic), 0, 0, "TEXT", NULL,
     "topic of the events; default: the empty one"},
    {"event-encoding", FLAG_CHOICE, AT(event_encoding), 0, 0, "map|array",
     "map",
     "vLLM's since 0.24, SGLang's since 0.5.20; or those\n"
     "before that"},
    {"event-slots", FLAG_COUNT, AT(event_slots), ENGINE_EVENTS_SLOTS_MIN,
     ENGINE_EVENTS_SLOTS_MAX, "N", "11",
     "array: elements of a BlockStored; 6: v0.9, 7: 0.11,\n"
     "8: 0.13, 9: 0.17"},
    {"event-hashes", FLAG_CHOICE, AT(event_hashes), 0, 0, "int|bytes", "int",
     "how vLLM's block hashes are written"},
    {"buffer-steps", FLAG_COUNT, AT(buffer_steps), 1, 1U << 24, "N", "10000",
     "batches kept for replay"},
    {"replay-frames", FLAG_COUNT, AT(replay_frames), 0, 4, "N", "0",
     "4: with topic, vLLM's since 0.26, SGLang's since\n"
     "0.5.22, trtllm's; 3: before that; 0: the engine's\n"
     "today"},
    {"replay-hwm", FLAG_COUNT, AT(replay_hwm), 0, 1U << 30, "N", "1000",
     "messages of a replay that may wait; more are lost,\n"
     "as in real engines; 0: no limit"},
    {"scale-out", FLAG_CHOICE, AT(scale_out), 0, 0, "on|off", "on",
     "off: vLLM's renderers answer 403, as they do without\n"
     "its --enable-scale-out"},
    {"apis", FLAG_CHOICE, AT(apis), 0, 0, "all|chats", "all",
     "chats: no /v1/responses and no /v1/messages, as\n"
     "older releases"},
    {"split", FLAG_CHOICE, AT(split), 0, 0, "off|both|prefill|decode", "off",
     "parts of split requests that it plays: vllm by\n"
     "kv_transfer_params, unless off; sglang by\n"
     "bootstrap_room, prefill or decode and no other"},
    {"transfer-tps", FLAG_COUNT, AT(transfer_tokens_per_s), 1, 4e9, "N",
     "400000", "prompt tokens passed on per second"},
    {"help", FLAG_SWITCH, AT(help), 0, 0, NULL, NULL, "this text"},
};

static const struct flags all = {flags, sizeof(flags) / sizeof(flags[0])};

/* What the flags left open is the make's. False: fault says why. */
static bool
settle(struct engine_options *o, char *fault, size_t fault_size)
{
    const struct engine_make_facts *facts =
        engine_make_facts((enum engine_make)o->make);

    o->event_encoding =
        o->event_encoding == 0 ? facts->events : facts->events_before;
    o->block_size = o->block_size != 0 ? o->block_size : facts->block_tokens;
    o->running_max = o->running_max != 0 ? o->running_max : facts->running_max;
    o->replay_frames =
        o->replay_frames != 0 ? o->replay_frames : facts->replay_frames;
    o->window_groups = o->window != 0 ? o->window_groups : 0;
    if (o->window != 0 && facts->cache != ENGINE_CACHE_BLOCKS) {
        (void)snprintf(fault, fault_size,
                       "--window: this engine has no windows");
        return false;
    }
    if (o->eagle != 0 && (o->make != ENGINE_MAKE_VLLM || o->window != 0)) {
        (void)snprintf(fault, fault_size,
                       "--eagle: for vllm, and without --window");
        return false;
    }
    if (o->lookahead != 0 && (o->make != ENGINE_MAKE_VLLM ||
                              o->event_encoding != ENGINE_EVENTS_MAP)) {
        (void)snprintf(fault, fault_size,
                       "--lookahead: for vllm, and its events as maps");
        return false;
    }
    bool sglang = o->make == ENGINE_MAKE_SGLANG;
    if (o->split != ENGINE_PART_OFF &&
        (sglang ? o->split == ENGINE_PART_BOTH : o->make != ENGINE_MAKE_VLLM)) {
        (void)snprintf(fault, fault_size,
                       "--split: this engine has no such part");
        return false;
    }
    if (facts->publishes || (o->events == NULL && o->replay == NULL)) {
        return true;
    }
    (void)snprintf(fault, fault_size, "--%s: this engine publishes no events",
                   o->events != NULL ? "events" : "replay");
    return false;
}

int
engine_options_parse(struct engine_options *options, char **argv, char *fault,
                     size_t fault_size)
{
    *options = (struct engine_options){.help = false};
    int r = flags_parse(&all, options, argv + 1, fault, fault_size);
    if (r == 0 && !settle(options, fault, fault_size)) {
        r = FLAGS_E_BAD;
    }
    if (r == 0 && options->models_count == 0) {
        options->models[options->models_count++] = MODEL_PRESET;
    }
    return r;
}

static const char manual_head[] =
    "kvasir-engine: an LLM engine without a GPU, to try routers on.\n"
    "\n"
    "It answers OpenAI requests with made-up words, but it queues, batches,\n"
    "caches prefixes and takes its time as vLLM does. The same prompt gets "
    "the\n"
    "same words, a prompt whose beginning is cached gets them sooner, and "
    "many\n"
    "requests at once slow each other down. `usage` says how many prompt "
    "tokens\n"
    "came from the cache. --engine makes it another engine than vLLM, with "
    "that "
    "one's\n"
    "rules, events, metrics and paths.\n"
    "\n"
    "usage: kvasir-engine [--FLAG VALUE]...\n"
    "\n";

static const char manual_tail[] =
    "\n"
    "Once it listens it prints `ready http=HOST:PORT events=URL replay=URL` "
    "to\n"
    "stdout, the URLs only if the flags ask for them; the log goes to stderr.\n"
    "On SIGTERM it finishes open requests and exits with 0. Exit codes: 0\n"
    "success, 1 failure, 2 bad usage.\n"
    "\n"
    "endpoints\n"
    "  POST /v1/chat/completions, /v1/completions    `stream` or not; one "
    "choice,\n"
    "       always max_tokens (16) long. A chat with tools calls one if its "
    "last\n"
    "       words are the user's and say `call NAME`, or tool_choice demands "
    "it\n"
    "  POST /v1/responses, /v1/messages              the same in their shapes\n"
    "  POST /v1/messages/count_tokens (vllm)         the length of the prompt\n"
    "  POST .../render of these four                 the token ids (vllm)\n"
    "  POST /v1/embeddings; /pooling (vllm)\n"
    "  POST /rerank, /v1/rerank, /v2/rerank, /score, /v1/score (vllm): how "
    "much\n"
    "       of a query's tokens a document has\n"
    "  POST /v1/audio/transcriptions (vllm)   a form: words for a file, "
    "streamed\n"
    "       or not\n"
    "  POST /v1/audio/speech (vllm)           a WAV or PCM for a text\n"
    "  POST /tokenize, /detokenize\n"
    "  POST /reset_prefix_cache    fails while requests run, and is told with "
    "the\n"
    "       next events; SGLang's /flush_cache is told at once\n"
    "  GET  /v1/models, /health, /version, /metrics (trtllm: "
    "/prometheus/metrics)\n"
    "  GET  /server_info (sglang), /slots (llamacpp)\n"
    "  GET  /chaos/kv/KEY   with --split: how another engine comes by "
    "a\n"
    "       prompt that this one computes for it. So SGLang's bootstrap_port "
    "is\n"
    "       that of the API\n"
    "  GET  /chaos/cache    the hash of each cached block, and the next "
    "event's\n"
    "       number\n"
    "\n"
    "misbehaviour: POST /chaos with a JSON object of these members; each "
    "stays\n"
    "until it is used up or set again; GET /chaos shows them\n"
    "  \"health\": 503               what GET /health answers; 200: healthy\n"
    "  \"fail_status\": 500          answer generation requests with this\n"
    "  \"fail_count\": N             ... the next N of them\n"
    "  \"hang_count\": N             take the next N, and never answer\n"
    "  \"die_after_tokens\": K       abort the connection after K tokens; of "
    "a\n"
    "                              stream with K tokens behind the last one,\n"
    "                              with K - 1 behind its usage\n"
    "  \"die_count\": N              ... of the next N requests\n"
    "  \"event_tokens\": K           put up to K tokens into one event of a "
    "stream,\n"
    "                              as a front end that lags; 1: each by "
    "itself\n"
    "  \"marked\": 1                do so only with requests that have "
    "x-chaos\n"
    "  \"speed_percent\": P          run at this share of --speed from now on\n"
    "  \"stall_ms\": T               freeze the whole process once, for T ms\n"
    "  \"exit\": CODE                exit at once, without closing anything\n"
    "  \"restart\": 1               abort all requests and start like a new\n"
    "                              process: an empty cache, other block "
    "hashes,\n"
    "                              events from 0, nothing to replay\n"
    "misbehaviour of the events\n"
    "  \"events\": 0                publish nothing from now on; 1: publish "
    "again\n"
    "  \"events_stalled\": 1        hold batches and replays back; 0: send "
    "them\n"
    "  \"events_stall_ms\": T       ... for so long\n"
    "  \"event_drop_count\": N      lose the next N live messages\n"
    "  \"replay_mute_count\": N     do not answer the next N replays\n"
    "  \"replay_hole_every\": K     leave out each K-th batch but the first "
    "(2)\n"
    "  \"replay_hole_count\": N     ... of the next N replays\n"
    "  \"replay_noend_count\": N    send no end marker after the next N "
    "replays\n"
    "Counts of 4294967295 never run out.\n";

void
engine_options_help(struct buf *out)
{
    buf_add_text(out, manual_head);
    flags_help(&all, out);
    buf_add_text(out, manual_tail);
}

struct engine_config
engine_options_config(const struct engine_options *o)
{
    uint64_t groups = 1 + o->window_groups; /* each takes all of a request */
    uint64_t room = o->blocks / groups * o->block_size;
    uint64_t len = o->model_len_max != 0 ? o->model_len_max : 32768;

    return (struct engine_config){
        .cache = engine_make_facts((enum engine_make)o->make)->cache,
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
        .events = o->events != NULL || o->replay != NULL,
        .windows = (uint32_t)o->window_groups,
        .window_tokens = (uint32_t)o->window,
        .recomputes = o->eagle != 0,
        .ahead = (uint32_t)o->lookahead,
    };
}
