/*
 * The table of all keys: name, type, place in struct config, default, bounds and
 * meaning. Whoever adds a key adds a row here and a member there.
 */
#include "node/config/config_schema.h"

#include <string.h>

#include "index/index.h"
#include "node/elect/elect.h"
#include "node/http/http_head.h"
#include "node/scan/scan.h"

#define KIB    UINT64_C(1024)
#define MIB    (1024 * KIB)
#define GIB    (1024 * MIB)
#define SECOND UINT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

#define SESSION_HEADER_MAX 40 /* bytes of its name */

#define AT(member)        offsetof(struct config, member)
#define AT_WORKER(member) offsetof(struct config_worker, member)
#define AT_POOL(member)   offsetof(struct config_scale_pool, member)

static const char *const eviction_choices[] = {
    [RADIX_LRU] = "lru",         [RADIX_LFU] = "lfu",
    [RADIX_FIFO] = "fifo",       [RADIX_MRU] = "mru",
    [RADIX_FILO] = "filo",       [RADIX_PRIORITY] = "priority",
    [RADIX_PRIORITY + 1] = NULL,
};

static const char *const level_choices[] = {
    [LOG_LEVEL_ERROR] = "error",  [LOG_LEVEL_WARNING] = "warning",
    [LOG_LEVEL_INFO] = "info",    [LOG_LEVEL_DEBUG] = "debug",
    [LOG_LEVEL_DEBUG + 1] = NULL,
};

static const char *const format_choices[] = {
    [LOG_FORMAT_LOGFMT] = "logfmt",
    [LOG_FORMAT_JSON] = "json",
    [LOG_FORMAT_JSON + 1] = NULL,
};

static const char *const resume_choices[] = {"off", "greedy", "always", NULL};
static const char *const affinity_choices[] = {"off", "soft", "hard", NULL};

static const char *const role_choices[] = {
    [CONFIG_ROLE_BOTH] = "both",
    [CONFIG_ROLE_PREFILL] = "prefill",
    [CONFIG_ROLE_DECODE] = "decode",
    [CONFIG_ROLE_DECODE + 1] = NULL,
};

static const char *const scale_choices[] = {
    [CONFIG_SCALE_OFF] = "off",
    [CONFIG_SCALE_DRY_RUN] = "dry_run",
    [CONFIG_SCALE_ACT] = "act",
    [CONFIG_SCALE_ACT + 1] = NULL,
};

static const char *const sandbox_choices[] = {
    [CONFIG_SANDBOX_AUTO] = "auto",
    [CONFIG_SANDBOX_OFF] = "off",
    [CONFIG_SANDBOX_REQUIRE] = "require",
    [CONFIG_SANDBOX_REQUIRE + 1] = NULL,
};

static const char *const switch_choices[] = {"off", "on", NULL};

static const char *const bool_choices[] = {"false", "true", NULL};

static const struct config_section sections[] = {
    {"admin", "who may use the admin port"},
    {"extproc", "gateways that ask which worker is to have a request"},
    {"keys", "who may send requests, and for which models"},
    {"jwt", "tokens that clients may send in place of keys"},
    {"cors", "which pages in browsers may use the serving port"},
    {"messages", "requests of /v1/messages"},
    {"tls", "TLS of clients, of the admin port, and to workers"},
    {"content", "models chosen by what requests say"},
    {"policy", "how a worker is chosen for a request"},
    {"slo", "how fast answers should be"},
    {"island",
     "where this node is, and what it costs to send requests elsewhere"},
    {"scale", "how many engines there should be"},
    {"affinity", "when requests of one session stay at one worker"},
    {"retries", "when a request that a worker failed goes to another one"},
    {"belief",
     "what the node remembers of prompts and the workers they were sent to"},
    {"mirror", "what engines' own events tell of their caches"},
    {"events", "how those events are followed"},
    {"tokens", "what a prompt's tokens are: made here, or asked of engines"},
    {"usage", "the token counts that engines report"},
    {"answer_cache", "answers that are kept for requests that repeat"},
    {"limits", "bounds of this node; each is counted when it is reached"},
    {"timeouts", "how long each stage of a request may take"},
    {"health", "how workers are watched"},
    {"breaker", "when a worker that fails requests is left alone"},
    {"mesh", "other nodes, and how they are reached"},
    {"data", "snapshots, from which a restarted node continues"},
    {"log", "lines on stderr"},
    {"traces", "spans of requests, for a collector of OpenTelemetry"},
    {"kubernetes", "the API server that names workers"},
    {"workers", "which workers a node takes, wherever it hears of them"},
};

/* clang-format off */
static const struct config_key node_keys[] = {
    {"name", CONFIG_LABEL, AT(name), "", 0, 0, NULL,
     "Name of this node in answers, logs and metrics; absent: the host's name."},
    {"listen", CONFIG_LISTEN, AT(listen), "0.0.0.0:8080", 0, 0, NULL,
     "Where clients connect; port 0 is a free one."},
    {"admin", CONFIG_LISTEN, AT(admin), "127.0.0.1:9080", 0, 0, NULL,
     "Where metrics and the admin API are; port 0 is a free one."},
    {"lanes", CONFIG_COUNT, AT(lanes), "0", 0, CONFIG_LANES_MAX, NULL,
     "Event loops that serve requests; 0: one for each CPU."},
    {"sandbox", CONFIG_CHOICE, AT(sandbox), "auto", 0, 0, sandbox_choices,
     "Whether the kernel holds the node to what a router does: files are written below data.dir alone, no program is run, and system calls that it has no use for fail. auto: as far as the kernel has it, and not at all with scale.command, whose programs would inherit it; require: the node does not start without; off."},
    {"paths", CONFIG_PATHS, AT(paths), "", 0, 0, NULL,
     "Paths that are forwarded to workers beside those of inference, between blanks; /a/* is all below /a/. Whoever may connect to the serving port may then use them: /v1/load_lora_adapter lets everybody load adapters. A worker that was sent /reset_prefix_cache, /flush_cache, /sleep or another path of vLLM or SGLang that empties its cache this way is known to be empty at once."},
    {"models", CONFIG_MODELS, AT(tokens.models), "none", 0, 0, NULL,
     "Models' own files one by one, beside those in tokens.dir and before them: a folder, or the tokenizer's file in it. In a file also a list; each item is such a text, or a mapping of name, path, template (a file instead of the folder's) and content (how a message reaches the template)."},
    {"aliases", CONFIG_ALIASES, AT(aliases), "none", 0, 0, NULL,
     "Names that clients may ask for beside those that engines serve, and the models behind them. A request gets the name of its model before it goes anywhere; answers say that one. Several models share an alias by their weights, each conversation with one of them; when that one has no worker, or all of them fail or are busy before an answer begins, the other ones are tried, then those behind fallback. A tenant's models and limits are those of the alias. In a file also a list; each item is such a text, or a mapping of name, to (a model, a list, or a mapping to weights) and fallback (a model or a list)."},
    {"placement_headers", CONFIG_CHOICE, AT(placement_headers), "off", 0, 0, switch_choices,
     "Whether answers of 2xx tell every client which worker had how much of the prompt. That tells strangers which prompts others sent: for tests. A request with a token of admin.token_file in x-kvasir-token is told in any case."},

    {"admin.token_file", CONFIG_FILE, AT(admin_access.token_file), "", 0, 0, NULL,
     "File of the tokens that the admin port wants, NAME TOKEN in each line; requests say Authorization: Bearer TOKEN. NAME TOKEN join is one for engines, which may announce themselves with it (POST /admin/workers with a ttl) and nothing else. It is read again when it changes. On the serving port x-kvasir-token: TOKEN has answers say where a request went."},
    {"admin.insecure", CONFIG_CHOICE, AT(admin_access.insecure), "false", 0, 0, bool_choices,
     "Allow an admin port without tokens beyond loopback."},
    {"admin.metrics", CONFIG_LISTEN, AT(admin_access.metrics), "", 0, 0, NULL,
     "A port that has /metrics, /health and /ready alone, without a token; port 0 is a free one. Absent: none."},

    {"extproc.listen", CONFIG_LISTEN, AT(extproc.listen), "", 0, 0, NULL,
     "A port for gateways (Envoy, Istio and others that have the Gateway API's inference extension), where this node is their endpoint picker: they ask by Envoy's external processing, gRPC over HTTP/2, which worker is to have a request, and send it there themselves. Who may send requests, and what of TLS, is as at listen; port 0 is a free one. Absent: none."},
    {"extproc.fallbacks", CONFIG_COUNT, AT(extproc.fallbacks), "2", 0, CONFIG_FALLBACKS_MAX, NULL,
     "How many workers they are told beside the first, to be tried in order where that one fails. 0 for gateways that read one endpoint and no list (Envoy's clusters of ORIGINAL_DST)."},

    {"keys.file", CONFIG_FILE, AT(keys.file), "", 0, 0, NULL,
     "YAML file of tenants, their keys (`kvasir key` makes one) and the models that each may use: see `kvasir key --help`. Requests then say Authorization: Bearer KEY or x-api-key: KEY, all but those for /health and /ready; these headers go to no worker. It is read again with the configuration. Absent: nobody needs a key."},

    {"jwt.jwks", CONFIG_FILE, AT(jwt.jwks), "", 0, 0, NULL,
     "Public keys (a JSON Web Key Set) of those whose tokens are good: a file, or one https:// URL, the only place that keys are fetched from. Clients may then send a JWT, signed by RS256 or ES256 and with an end (exp), as they would a key; it goes to no worker. It wants keys.file, whose tenants the tokens name. A file is read again with the configuration. Absent: no tokens."},
    {"jwt.ca_file", CONFIG_FILE, AT(jwt.ca_file), "", 0, 0, NULL,
     "PEM file of authorities: the certificate of that URL must be by one of them. Absent: those of the system."},
    {"jwt.refresh", CONFIG_DURATION, AT(jwt.refresh_ms), "5m", 10000, 86400000, NULL,
     "Time after which that URL is asked again. A token by an unknown key has it asked sooner, but not within 5 s. While it does not answer, the last good set stays."},
    {"jwt.issuer", CONFIG_TEXT, AT(jwt.issuer), "", 0, 0, NULL,
     "What a token's iss must be, exactly. Absent: anything."},
    {"jwt.audience", CONFIG_TEXT, AT(jwt.audience), "", 0, 0, NULL,
     "What a token's aud must be or list. Absent: anything, so tokens that were made for other services are good here."},
    {"jwt.tenant_claim", CONFIG_TEXT, AT(jwt.tenant_claim), "tenant", 0, 0, NULL,
     "The claim, a text at the top, that names the tenant."},
    {"jwt.default_tenant", CONFIG_LABEL, AT(jwt.default_tenant), "", 0, 0, NULL,
     "The tenant of keys.file whose weight, priority and models hold for tokens that name none of its tenants. Absent: these are refused."},
    {"jwt.leeway", CONFIG_DURATION, AT(jwt.leeway_ms), "30s", 0, 300000, NULL,
     "How far clocks may be apart where exp and nbf are judged."},

    {"cors.origins", CONFIG_ORIGINS, AT(cors.origins), "", 0, 0, NULL,
     "Origins of pages whose code may send requests here and read the answers, SCHEME://HOST[:PORT] between blanks; *: every page that anybody opens, which without keys.file is everybody. Their browsers' questions beforehand are answered here, without a key; no cookies are taken. Absent: none, whatever an engine says of it."},

    {"messages.cache_control", CONFIG_CHOICE, AT(messages.cache_control), "off", 0, 0, switch_choices,
     "Whether a request that has no cache_control gets one at its top, {\"type\":\"ephemeral\"}, for workers whose caches must be told so (Anthropic's own API, or a gateway to it); one that has its own, anywhere, goes out as it is. Engines that cache by themselves pass over it."},

    {"tls.cert_file", CONFIG_FILE, AT(tls.cert_file), "", 0, 0, NULL,
     "PEM file of the serving port's certificate, and behind it those of the authorities between it and the root. With it and tls.key_file all clients speak TLS (1.2 or later, HTTP/1.1) there, /health and /ready included. The three files are read again with the configuration; connections go on with what they began with. Absent: clear text."},
    {"tls.key_file", CONFIG_FILE, AT(tls.key_file), "", 0, 0, NULL,
     "PEM file of its key, without a passphrase."},
    {"tls.client_ca_file", CONFIG_FILE, AT(tls.client_ca_file), "", 0, 0, NULL,
     "PEM file of authorities: clients must show a certificate by one of them. Absent: they need none."},
    {"tls.admin", CONFIG_CHOICE, AT(tls.admin), "off", 0, 0, switch_choices,
     "Whether the ports of admin and admin.metrics speak TLS: then the commands want --admin https://HOST:PORT, and scrapes https."},
    {"tls.admin_cert_file", CONFIG_FILE, AT(tls.admin_cert_file), "", 0, 0, NULL,
     "PEM file of their certificate, read again as tls.cert_file is. Absent: tls.cert_file and tls.key_file are theirs, too."},
    {"tls.admin_key_file", CONFIG_FILE, AT(tls.admin_key_file), "", 0, 0, NULL,
     "PEM file of its key, without a passphrase."},
    {"tls.workers_ca_file", CONFIG_FILE, AT(tls.workers_ca_file), "", 0, 0, NULL,
     "PEM file of authorities: the certificate of a worker with https must be by one of them. Read again with the configuration, as the next two. Absent: those of the system (/etc/ssl/certs)."},
    {"tls.workers_cert_file", CONFIG_FILE, AT(tls.workers_cert_file), "", 0, 0, NULL,
     "PEM file of the certificate that this node shows to workers with https. Absent: it shows none."},
    {"tls.workers_key_file", CONFIG_FILE, AT(tls.workers_key_file), "", 0, 0, NULL,
     "PEM file of its key, without a passphrase."},

    {"content.file", CONFIG_FILE, AT(content.file), "", 0, 0, NULL,
     "YAML file of names that clients may ask for, and of rules over what a request says (words, regular expressions, code, tools, languages, lengths, tenants, examples) that choose the model behind such a name: see `kvasir route-test --help`, which has its form and tries it. It is read again with the configuration. Absent: none."},
    {"content.embeddings_model", CONFIG_TEXT, AT(content.embeddings_model), "", 0, 0, NULL,
     "Model that workers list and serve at /v1/embeddings: rules of content.file with `like` (examples of what their requests say) have it tell how near a message is to them. Its workers see messages' first KiB; of tenants with isolation strict or a residency they see nothing. Empty: none; then no rule may have `like`."},
    {"content.embeddings_wait", CONFIG_DURATION, AT(content.embeddings_wait_ms), "50ms", 1, 10000, NULL,
     "How long a request waits for its message's vector at most. After that no rule with `like` fits it. After four that did not come in a row a lane asks for none for a second."},

    {"policy.name", CONFIG_CHOICE, AT(policy.name), "kvasir", 0, 0,
     elect_policy_names,
     "How a worker is chosen; kvasir prefers the one that holds the prompt's prefix, unless the load says otherwise. cache_aware, composite and dynamo are rules of other routers."},
    {"policy.models", CONFIG_CHOICES, AT(policy.models), "none", 0, 0,
     elect_policy_names,
     "The rule for requests of some models in place of policy.name, as NAME=RULE between blanks; a name with a * at its end is of all models that begin so, and the first that fits counts. Of an alias it is the model behind it that counts. Also a list."},
    {"policy.cache_threshold", CONFIG_RATIO, AT(policy.cache_threshold_permille), ELECT_TEXT(ELECT_CACHE_THRESHOLD), 0, 1000, NULL,
     "Part of a prompt that a worker must hold before that counts in the choice."},
    {"policy.recompute_weight", CONFIG_COUNT, AT(policy.recompute_weight), ELECT_TEXT(ELECT_RECOMPUTE_WEIGHT), 0, 100, NULL,
     "Weight of a prompt's token that a worker would have to compute, against 1 for a token that waits there. 0: the longest prefix above cache_threshold wins (use 0.3 there), whatever waits, otherwise the fewest requests."},
    {"policy.split_tokens", CONFIG_COUNT, AT(policy.split_tokens), ELECT_TEXT(ELECT_SPLIT_TOKENS), 0, 1000000000, NULL,
     "Prompt tokens that a decode worker must lack for a prefill worker to compute them (workers' role). Less is computed at once where the answer is made. The slower the network between them, the higher."},
    {"policy.balance_abs", CONFIG_COUNT, AT(policy.balance_abs), ELECT_TEXT(ELECT_BALANCE_ABS), 0, 1000000, NULL,
     "The load is imbalanced when workers differ by more requests than this and by balance_rel."},
    {"policy.balance_rel", CONFIG_RATIO, AT(policy.balance_rel_permille), ELECT_TEXT(ELECT_BALANCE_REL), 1000, 1000000, NULL,
     "The load is imbalanced when the highest is also over this many times the lowest."},
    {"policy.kv_pressure_max", CONFIG_RATIO, AT(policy.kv_pressure_max_permille), ELECT_TEXT(ELECT_KV_PRESSURE_MAX), 0, 1000, NULL,
     "A worker with more than this of its KV cache in use is passed over while there is another. 1: none is, because engines queue what they have no memory for."},
    {"policy.temperature", CONFIG_RATIO, AT(policy.temperature_permille), "0", 0, 1000000, NULL,
     "Of the policy dynamo: how much of its choice is left to chance. 0: the least cost wins; at 1 the dearest worker gets about a third of what the cheapest gets."},
    {"policy.pool_threshold", CONFIG_COUNT, AT(policy.pool_threshold), ELECT_TEXT(ELECT_POOL_THRESHOLD), 0, 1U << 24, NULL,
     "Where engines differ in max_model_len: a prompt and answer of up to so many tokens goes to those below the greatest one, a longer one to the others. What does not fit into an engine at all never goes there. 0: lengths beyond that do not matter."},
    {"policy.pool_spill", CONFIG_COUNT, AT(policy.pool_spill), ELECT_TEXT(ELECT_POOL_SPILL), 0, 10000, NULL,
     "It goes to the other engines instead when its own have that many requests more each, or prompts of 256 times as many tokens more that wait or would have to be computed. 0: as policy.pool_threshold 0."},
    {"policy.pool_tune", CONFIG_CHOICE, AT(policy.pool_tune), "off", 0, 0, switch_choices,
     "on: policy.pool_threshold is only where it begins. From 200 requests of a model on, every 10 minutes, each node looks which threshold would give both kinds of engines as much to do for each engine, by the budgets and the work of the last days (/admin/mix), and takes it if that spares the busier kind a tenth. What counts is the median of all nodes' thresholds, weighed by their requests, and so the same on all nodes. It evens out the load; short requests may have to share their engines with longer ones for it."},
    {"policy.attempts_max", CONFIG_COUNT, AT(policy.attempts_max), "3", 1, CONFIG_ATTEMPTS_MAX, NULL,
     "Workers tried for one request before its first byte is answered."},

    {"slo.ttft", CONFIG_DURATION, AT(slo.ttft_ms), "0", 0, 10 * MINUTE, NULL,
     "Time to the first token within which answers should begin. Of the workers that are expected to keep it, the one of the least cost gets the request (policy kvasir with a recompute_weight); where none is, or its cost is more than twice the least of all, the rule is as without. What each can keep is learned from streams. 0: any time."},
    {"slo.itl", CONFIG_DURATION, AT(slo.itl_ms), "0", 0, MINUTE, NULL,
     "Time between two tokens of an answer, its mean, in the same way. It is learned where engines report how many tokens an answer has (usage.ask). 0: any time."},
    {"slo.models", CONFIG_SLOS, AT(slo.models), "none", 0, 0, NULL,
     "Both times of single models, in place of those above: NAME=TTFT/ITL between blanks, by the names that engines serve. A worker of several models keeps the stricter ones."},

    {"island.name", CONFIG_ISLAND, AT(island.name), "", 0, 0, NULL,
     "Where this node is: cloud/region/zone, as in the island of a worker. A worker of another island costs as much more as its link (island.links), so that a request leaves its island only where that is worth it. Absent: no worker is nearer than another. After a reload other nodes go on with the name before it until this node is started anew."},
    {"island.links", CONFIG_LINKS, AT(island.links), "none", 0, 0, NULL,
     "What a request's way between two islands costs, in time, both ways round: eu~us=80ms is for all islands below eu and below us, eu~eu=5ms for any two below eu; the row with the longest names counts. Greater times keep more requests inside. Links that no row names cost what the node measures: the round trip to that island's workers, less that to its own. eu~us=80ms@0.02 has also what a GB costs: what the bytes of a usual request and its answer cost is added as the time for which an engine (scale.price, else the least price of scale.pools) costs as much. eu~us=@0.02: the time is measured."},

    {"scale.mode", CONFIG_CHOICE, AT(scale.mode), "off", 0, 0, scale_choices,
     "Whether to judge how many engines each model should have. dry_run: /admin/scale, the status, metrics and the log (scale_wants) say what would be done and why; nothing is done. Of a mesh one node logs it. act: one node of the mesh at a time has engines made, and those ended that were made so, by scale.hook, scale.command, scale.kubernetes or those of scale.pools; all nodes need the same scale."},
    {"scale.min", CONFIG_COUNT, AT(scale.min), "1", 1, CONFIG_WORKERS_MAX, NULL,
     "Engines that a model has at least; at most scale.max. Models that share engines count as one."},
    {"scale.max", CONFIG_COUNT, AT(scale.max), "16", 1, CONFIG_WORKERS_MAX, NULL,
     "Engines that a model has at most."},
    {"scale.target", CONFIG_RATIO, AT(scale.target_permille), "0.8", 50, 1000, NULL,
     "Part of the requests that an engine is good for (its limit, or what keeps slo.itl) that should be in flight there."},
    {"scale.step", CONFIG_COUNT, AT(scale.step), "2", 1, CONFIG_WORKERS_MAX, NULL,
     "Engines that are asked for at one time; they go one by one."},
    {"scale.price", CONFIG_RATIO, AT(scale.own.price_milli), "0", 0, 1000000000, NULL,
     "What an engine costs an hour, in any currency; one of scale.pools has a price of its own."},
    {"scale.budget", CONFIG_RATIO, AT(scale.budget_milli), "0", 0, 4000000000, NULL,
     "What all engines together may cost an hour; more are not asked for, and those that are there stay. 0: any."},
    {"scale.provision", CONFIG_DURATION, AT(scale.provision_ms), "5m", 1000, 24 * HOUR, NULL,
     "How long a new engine takes from asking for it to its first answer: so far ahead the trend of the load is followed, and so long those that were asked for are waited for."},
    {"scale.cool_down", CONFIG_DURATION, AT(scale.cool_down_ms), "10m", 1000, 24 * HOUR, NULL,
     "How long one engine fewer must have been enough, and nothing have changed, before one goes. It drains then for timeouts.drain at most."},
    {"scale.hook", CONFIG_WEB, AT(scale.own.hook), "", 0, 0, NULL,
     "URL that makes engines and ends them, for mode act. Change it, or its like below, while no engine is asked for. It gets POSTs of {\"action\":\"provision\", \"key\":..., \"epoch\":..., \"by\":..., \"model\":..., \"worker\":\"\", \"missed\":...}, again and again with the same key until an answer of 2xx has {\"worker\":\"URL[,KEY=VALUE]...\"}, as --worker has it; and, once an engine has drained, of action terminate with its worker's id, until an answer is 2xx. A lower epoch than was seen before comes from a node that was cut off. missed: engines in a row that took no requests within scale.provision."},
    {"scale.token_file", CONFIG_FILE, AT(scale.own.token_file), "", 0, 0, NULL,
     "File whose first word goes to scale.hook as a Bearer token. It is read for each call."},
    {"scale.command", CONFIG_FILE, AT(scale.own.command), "", 0, 0, NULL,
     "Program in place of scale.hook: it is started as PROGRAM provision KEY, and PROGRAM terminate KEY, with what else the hook is told in its environment (ENGINE_ACTION, ENGINE_KEY, ENGINE_EPOCH, ENGINE_BY, ENGINE_MODEL, ENGINE_WORKER, ENGINE_MISSED). Exit code 0 is an answer of 2xx; the first word that it prints, if any, is the worker. After 60 s (scale.provision, where that is less) it is killed, with what it started in its process group."},
    {"scale.kubernetes", CONFIG_TEXT, AT(scale.own.kubernetes), "", 0, 0, NULL,
     "StatefulSet in place of scale.hook: [NAMESPACE/]NAME, of engines that serve one model. Its replicas are set, one up or down at a time, through its scale sub-resource, by the API server and the account of kubernetes.*, which needs get and update of statefulsets/scale. Nothing else may scale it; pods that it has already are taken in first. The pod with the highest number goes first, whatever its cache holds."},
    {"scale.worker", CONFIG_TEXT, AT(scale.own.worker), "", 0, 0, NULL,
     "What a pod of scale.kubernetes is as a worker: URL[,KEY=VALUE]..., as --worker has it, where {} is the pod's number: http://vllm-{}.vllm.ml:8000."},
    {"scale.pools", CONFIG_POOLS, AT(scale.pools), "none", 0, 0, NULL,
     "Where engines are made, in place of scale.hook and its like: NAME[,KEY=VALUE]... for each place, blanks between them; the keys are below. The next engine is asked of the cheapest that is within scale.within, has fewer than its max, and fits scale.budget. One whose engine does not come within scale.provision is asked last for as long, twice as long each time, for an hour at most. An engine's worker gets pool=NAME and the pool's island, where it does not say others. Of engines that hold about as little the dearest goes first. Pools that have engines keep their name and what makes them."},
    {"scale.within", CONFIG_DURATION, AT(scale.within_ms), "0", 0, 10 * MINUTE, NULL,
     "How far a pool of scale.pools may be, by island.links or as measured, from an island in which nodes get requests (island.name of theirs). The island with most requests for each engine that is so near is served first. A pool that no link is known to gets no engines but those of its min; one without an island is near to all. 0: any."},
    {"scale.quorum", CONFIG_COUNT, AT(scale.quorum), "1", 1, MEMBERS_MAX, NULL,
     "Nodes that must be in touch for one of them to act: more than half of all that the mesh ever has at one time (2 of 2 or 3, 3 of 4 or 5). While fewer are, engines stay as they are."},

    {"affinity.mode", CONFIG_CHOICE, AT(affinity.mode), "off", 0, 0, affinity_choices,
     "Whether requests of one session go to one worker, on all nodes. soft: that worker counts as holding the whole prompt, so that load can outweigh it, with policies that look at prefixes; hard: it gets them as long as it takes requests; then another one becomes the session's. Sessions are kept apart by tenant and model."},
    {"affinity.headers", CONFIG_NAMES, AT(affinity.headers), "x-session-id", 0, SESSION_HEADER_MAX, NULL,
     "Header fields whose value names the session: the first that a request has counts, and those before those of the body."},
    {"affinity.fields", CONFIG_NAMES, AT(affinity.fields), "session_id user", 0, SCAN_NAME_MAX, NULL,
     "Members of the body that name the session, if they are strings; none that the node reads for another purpose (model, cache_salt, conversation, ...)."},

    {"retries.statuses", CONFIG_STATUSES, AT(retries.statuses), "500,502,503,504", 0, 0, NULL,
     "Answers that are failures of the worker, so that another one is asked; none: no answer is. A 429 or 503 with Retry-After always goes to another worker."},
    {"retries.after_send", CONFIG_COUNT, AT(retries.after_send), "1", 0, CONFIG_ATTEMPTS_MAX - 1, NULL,
     "How often a request that a worker got whole, and failed, is sent again; so one that ends its engine ends no more than one other."},
    {"retries.streams", CONFIG_CHOICE, AT(retries.streams), "greedy", 0, 0, resume_choices,
     "Which streamed chats and completions go on at another worker when theirs breaks off. greedy: those with temperature 0, whose text is the same everywhere, and is checked where the two meet; always: others as well, whose text another worker goes on with as it would. Such a stream passes in whole events, and its request is kept until it ends. If it breaks off behind its last token, its end is made here."},

    {"belief.block_bytes", CONFIG_SIZE, AT(belief.block_bytes), "128", 16, 4 * KIB, NULL,
     "Bytes of prompt text that make one block."},
    {"belief.bytes_max", CONFIG_SIZE, AT(belief.bytes_max), "512MiB", MIB, 1024 * GIB, NULL,
     "Memory of the prefix tree."},
    {"belief.namespaces_max", CONFIG_COUNT, AT(belief.namespaces_max), "4096", 1, 1000000, NULL,
     "Combinations of model, adapter and cache salt."},
    {"belief.depth_max", CONFIG_COUNT, AT(belief.depth_max), "8192", 16, 1000000, NULL,
     "Blocks of one prompt that are looked at; the rest of the prompt is ignored."},
    {"belief.worker_blocks_max", CONFIG_COUNT, AT(belief.worker_blocks_max), "100000", 16, 1000000000, NULL,
     "Blocks that a worker is believed to hold, unless it says blocks_max."},
    {"belief.eviction", CONFIG_CHOICE, AT(belief.eviction), "lru", 0, 0,
     eviction_choices,
     "Which block a full worker gives up: the policy of its engine's cache."},

    {"mirror.bytes_max", CONFIG_SIZE, AT(mirror.bytes_max), "1GiB", MIB, 1024 * GIB, NULL,
     "Memory of the index of blocks that engines hold."},
    {"mirror.ledger_bytes_max", CONFIG_SIZE, AT(mirror.ledger_bytes_max), "1GiB", MIB, 1024 * GIB, NULL,
     "Memory for the names that engines give their blocks: of engines that this node reads, and as much again of all engines."},
    {"mirror.expected_bytes_max", CONFIG_SIZE, AT(mirror.expected_bytes_max), "64MiB", MIB, 64 * GIB, NULL,
     "Memory for blocks that engines are expected to report, because a request was sent there; as much again for blocks of text until the answer begins."},
    {"mirror.expected", CONFIG_DURATION, AT(mirror.expected_ms), ELECT_TEXT(CONFIG_EXPECTED_S) "s", 0, HOUR, NULL,
     "How long a request's blocks count as held before an event confirms them."},
    {"mirror.host", CONFIG_RATIO, AT(mirror.host_permille), "0.8", 0, 1000, NULL,
     "Worth of a block in host memory, relative to one in device memory."},
    {"mirror.disk", CONFIG_RATIO, AT(mirror.disk_permille), "0.5", 0, 1000, NULL,
     "Worth of a block on disk, relative to the same."},
    {"mirror.external", CONFIG_RATIO, AT(mirror.external_permille), "0.3", 0, 1000, NULL,
     "Worth of a block in a store on the network, relative to the same."},
    {"mirror.stale", CONFIG_RATIO, AT(mirror.stale_permille), "0.5", 0, 1000, NULL,
     "Trust in a worker's mirror while some of its events are missing, and at first where blocks from before are not known."},
    {"mirror.wrong", CONFIG_RATIO, AT(mirror.wrong_permille), "0.5", 1, 1000, NULL,
     "A worker's events are read from scratch when more than this part of its last answers differ from the prediction."},

    {"events.replay_timeout", CONFIG_DURATION, AT(events.replay_timeout_ms), "3s", 10, 10 * MINUTE, NULL,
     "Silence after which a replay is asked for again."},
    {"events.replay_rounds", CONFIG_COUNT, AT(events.replay_rounds), "5", 1, 100, NULL,
     "Replays asked for before a gap counts as lost for good."},
    {"events.probe", CONFIG_DURATION, AT(events.probe_ms), "2s", 10, HOUR, NULL,
     "Quiet time after which a stream is checked for events lost at its end; the second check waits twice as long, and later ones four times."},
    {"events.silence", CONFIG_DURATION, AT(events.silence_ms), "30s", 10, 24 * HOUR, NULL,
     "A worker that serves requests but sends no events for this long is reported."},
    {"events.pending_bytes_max", CONFIG_SIZE, AT(events.pending_bytes_max), "64MiB", MIB, 16 * GIB, NULL,
     "Live events of one stream that are kept while a replay runs."},
    {"events.payload_bytes_max", CONFIG_SIZE, AT(events.payload_bytes_max), "16MiB", KIB, GIB, NULL,
     "Size of one batch of events; a larger batch is dropped."},
    {"events.hwm", CONFIG_COUNT, AT(events.hwm), "200000", 1000, 100000000, NULL,
     "Messages that ZeroMQ keeps per socket while the node is busy."},
    {"events.nats_login", CONFIG_SECRET, AT(events.nats_login), "", 0, 0, NULL,
     "What NATS servers are shown, where events come from there: USER:PASSWORD, or a token. To nats:// it is sent as it is, to tls:// once the server has shown its certificate."},
    {"events.nats_creds_file", CONFIG_FILE, AT(events.nats_creds_file), "", 0, 0, NULL,
     "File of a NATS user's credentials (.creds: its JWT and its seed), in place of events.nats_login. The JWT is shown, and what the server asks with each connection is signed; the seed goes nowhere. Read for each connection."},

    {"tokens.wait", CONFIG_DURATION, AT(tokens.wait_ms), "10ms", 0, MINUTE, NULL,
     "Longest time that a request waits for an engine to tokenise it; 0: no engine is asked, and requests are routed by text."},
    {"tokens.timeout", CONFIG_DURATION, AT(tokens.timeout_ms), "2s", 10, 10 * MINUTE, NULL,
     "Longest time that an engine may take to tokenise; a later answer is dropped. So long a count of tokens (/v1/messages/count_tokens) waits for a thread of this node, before an engine is asked."},
    {"tokens.cache_bytes_max", CONFIG_SIZE, AT(tokens.cache_bytes_max), "128MiB", MIB, 64 * GIB, NULL,
     "Memory for tokenised conversations, of all lanes together."},
    {"tokens.open_max", CONFIG_COUNT, AT(tokens.open_max), "64", 1, 10000, NULL,
     "Prompts that engines tokenise at one time, per lane; also those that threads of this node do."},
    {"tokens.dir", CONFIG_FILE, AT(tokens.dir), "", 0, 0, NULL,
     "Folder of models' own files (tokenizer.json, tokenizer_config.json, chat_template.jinja), in folders of the models' names or as Hugging Face's cache has them. Prompts of these models are tokenised here, and tokens are counted for /v1/messages/count_tokens, and no engine is asked. Absent: engines are asked."},

    {"usage.ask", CONFIG_CHOICE, AT(usage.ask), "on", 0, 0, switch_choices,
     "Whether engines are asked for the usage of streams whose clients did not ask (stream_options.include_usage); the event that an engine then adds is kept from these clients. vLLM and SGLang are asked for the usage of each event, too, of streams that may be resumed (retries.streams), so that their tokens are counted exactly. Without it such streams count no cached tokens, and predictions cannot be compared. Off where engines tell it to everybody (vLLM's --enable-force-include-usage)."},

    {"answer_cache.bytes_max", CONFIG_SIZE, AT(answer_cache.bytes_max), "0", 0, 1024 * GIB, NULL,
     "Memory of whole answers, kept for requests that repeat: those with temperature 0, and embeddings. 1MiB at least; an answer takes 1/128 of it at most, and 4MiB. The least recently used gives way. 0: none are kept. Answers then say X-Cache: HIT, MISS or BYPASS."},
    {"answer_cache.ttl", CONFIG_DURATION, AT(answer_cache.ttl_ms), "1h", 1, 2592000000, NULL,
     "How long an answer is kept, from when it came. Prompts whose template tells the date, and engines that got other weights under the same name, make older ones wrong."},
    {"answer_cache.seeded", CONFIG_CHOICE, AT(answer_cache.seeded), "off", 0, 0, switch_choices,
     "Whether a seed in a request does for temperature 0: where all engines of a model sample alike."},
    {"answer_cache.wait", CONFIG_DURATION, AT(answer_cache.wait_ms), "30s", 0, 3600000, NULL,
     "How long a request waits for the answer of the same one that came before it, before it goes to a worker itself. A stream has nothing to show meanwhile. 0: it does not wait."},
    {"answer_cache.redis", CONFIG_TEXT, AT(answer_cache.redis), "", 0, 0, NULL,
     "Redis or Valkey whose answers all nodes share, beside those in each one's memory: redis://HOST[:PORT][/NUMBER], or rediss:// for TLS, whose certificate must be for the host, by an authority of tls.workers_ca_file. It holds answers sealed by the secret of answer_cache.redis_file. While it is away a node goes on with its memory."},
    {"answer_cache.redis_file", CONFIG_FILE, AT(answer_cache.redis_file), "", 0, 0, NULL,
     "With answer_cache.redis: a file of lines: `secret TEXT` (required, 16 characters or more, the same on all nodes; openssl rand -hex 32), `password TEXT`, `user NAME`. Of the secret come the names of answers, which without it each node makes by a number of its own, and the key that they are sealed with."},
    {"answer_cache.redis_wait", CONFIG_DURATION, AT(answer_cache.redis_wait_ms), "100ms", 1, 10000, NULL,
     "How long a request waits for Redis at most, before it goes on without. A Redis that takes longer is left alone, and tried again after 50ms to 5s."},
    {"answer_cache.semantic_model", CONFIG_TEXT, AT(answer_cache.semantic_model), "", 0, 0, NULL,
     "Model that workers list and serve at /v1/embeddings: with it a request may get the answer to one that asks the same in other words. Only single questions in English, in chats and /v1/messages, without tools; numbers, names, negations, quotations, code and opposites must be the same, in the same order, and so must everything else that the requests say. Such answers say X-Cache: SEMANTIC and X-Cache-Similarity. Vectors take an eighth of answer_cache.bytes_max beside it. They can be wrong: other things with the same numbers are not told apart but by their cosine. Empty: off."},
    {"answer_cache.semantic_threshold", CONFIG_RATIO, AT(answer_cache.semantic_permille), "0.95", 500, 1000, NULL,
     "Cosine of two questions' vectors from which on one gets the other's answer. A rule of content.file may say another one."},
    {"answer_cache.semantic_wait", CONFIG_DURATION, AT(answer_cache.semantic_wait_ms), "50ms", 1, 10000, NULL,
     "How long a request waits for its question's vector at most, before it goes on without. After four that did not come in a row a lane asks for none for a second."},

    {"limits.connections_max", CONFIG_COUNT, AT(limits.connections_max), "20000", 1, 1000000, NULL,
     "Client connections; one more is answered 503, unless it asks for /health or /ready."},
    {"limits.client_connections_max", CONFIG_COUNT, AT(limits.client_connections_max), "0", 0, 1000000, NULL,
     "Connections of one client address (IPv6: of one /64). 0: as many as are still free, so that one address alone gets half. Where all clients come through one proxy, set it to connections_max."},
    {"limits.inflight_max", CONFIG_COUNT, AT(limits.inflight_max), "20000", 1, 1000000, NULL,
     "Requests being served; one more is answered 503."},
    {"limits.head_bytes_max", CONFIG_SIZE, AT(limits.head_bytes_max), "32KiB", KIB, MIB, NULL,
     "Head of a request (a larger one is answered 431) or of an engine's answer."},
    {"limits.headers_max", CONFIG_COUNT, AT(limits.headers_max), "96", 8, HTTP_HEADERS_MAX, NULL,
     "Header fields of one head; a request with more is answered 431."},
    {"limits.target_bytes_max", CONFIG_SIZE, AT(limits.target_bytes_max), "8KiB", 64, MIB, NULL,
     "Target of a request line; a longer one is answered 414."},
    {"limits.body_bytes_max", CONFIG_SIZE, AT(limits.body_bytes_max), "64MiB", KIB, 2 * GIB, NULL,
     "Body of one request; a larger one is answered 413."},
    {"limits.body_rate_min", CONFIG_SIZE, AT(limits.body_rate_min), "1KiB", 0, GIB, NULL,
     "Bytes a second, on average, at which a request body must come after its first timeouts.body; a slower one is answered 408. 0: any."},
    {"limits.buffered_bytes_max", CONFIG_SIZE, AT(limits.buffered_bytes_max), "1GiB", MIB, 1024 * GIB, NULL,
     "Requests and answers held at one time, beyond the first 16KiB of each connection, and an eighth more of answers that clients have yet to take; what does not fit is answered 503."},
    {"limits.client_bytes_max", CONFIG_SIZE, AT(limits.client_bytes_max), "0", 0, 1024 * GIB, NULL,
     "Of these the bytes for one client address (IPv6: for one /64); what does not fit is answered 429. 0: one request, and beyond that as much as is still free."},
    {"limits.json_depth_max", CONFIG_COUNT, AT(limits.json_depth_max), "128", 8, 1024, NULL,
     "Nesting of a JSON body; a deeper one is answered 400."},
    {"limits.spans_max", CONFIG_COUNT, AT(limits.spans_max), "4096", 16, 1000000, NULL,
     "Pieces of a prompt (messages, parts) that are looked at; the rest of the prompt is ignored."},
    {"limits.upstream_idle_max", CONFIG_COUNT, AT(limits.upstream_idle_max), "64", 0, 10000, NULL,
     "Unused connections kept open, per worker and lane."},
    {"limits.admin_connections_max", CONFIG_COUNT, AT(limits.admin_connections_max), "64", 1, 10000, NULL,
     "Connections to the admin port; one more is answered 503."},
    {"limits.decisions_max", CONFIG_COUNT, AT(limits.decisions_max), "1000", 1, 100000, NULL,
     "Decisions kept for /admin/decisions, the latest ones."},
    {"limits.decision_columns_bytes", CONFIG_SIZE, AT(limits.decision_columns_bytes), "0", 0, GIB, NULL,
     "Memory for what each election compared, of the latest ones: why each worker was chosen or not, with every number as it was then, in /admin/decisions/ID (the answer's x-request-id). 1MiB has some 1,000 elections among eight workers. 0: it is not kept, and costs nothing."},
    {"limits.queue_max", CONFIG_COUNT, AT(limits.queue_max), "4096", 1, 65536, NULL,
     "Requests that wait until a worker has room. When so many wait, the last one of the tenant with the most waiting, for its weight, in the last class is answered 503 with Retry-After."},
    {"limits.tenant_requests", CONFIG_RATE, AT(limits.tenant_requests), "none", 0, 0, NULL,
     "Requests that each tenant may send, to all nodes of a mesh together; without keys.file all clients are one tenant. Further ones are answered 429 with Retry-After. N/s is counted over four seconds. A tenant's own limits in keys.file go before this and the next two."},
    {"limits.tenant_tokens", CONFIG_RATE, AT(limits.tenant_tokens), "none", 0, 0, NULL,
     "The same for tokens: of a prompt as this node counts them and of the longest answer that the request allows, and once it has ended what its engine reported."},
    {"limits.tenant_concurrent", CONFIG_COUNT, AT(limits.tenant_concurrent), "0", 0, LIMITS_AMOUNT_MAX, NULL,
     "The same for requests that are open at one time. 0: any number."},
    {"limits.models", CONFIG_LIMITS, AT(model_limits), "none", 0, 0, NULL,
     "What all tenants together may ask for of single models, as they name them (an alias counts as what it is called): one, two or three of requests, tokens and concurrent; a name with a * at its end is of all models that begin so, together. The first that fits a request counts, beside its tenant's limits."},

    {"timeouts.head", CONFIG_DURATION, AT(timeouts.head_ms), "10s", 10, HOUR, NULL,
     "From a request's first byte to the end of its head; then it is answered 408."},
    {"timeouts.body", CONFIG_DURATION, AT(timeouts.body_ms), "30s", 10, HOUR, NULL,
     "Between two pieces of a request body; then it is answered 408."},
    {"timeouts.body_total", CONFIG_DURATION, AT(timeouts.body_total_ms), "10m", 10, 24 * HOUR, NULL,
     "From the end of a request's head to the end of its body; then it is answered 408."},
    {"timeouts.idle", CONFIG_DURATION, AT(timeouts.idle_ms), "75s", 10, 24 * HOUR, NULL,
     "How long a client's connection may be idle between two requests."},
    {"timeouts.write", CONFIG_DURATION, AT(timeouts.write_ms), "60s", 10, HOUR, NULL,
     "How long a client may take for the part of its answer that is ready (64KiB or less)."},
    {"timeouts.queue", CONFIG_DURATION, AT(timeouts.queue_ms), "30s", 0, HOUR, NULL,
     "How long a request waits while all workers that may take it are at workers.max_inflight; then it is answered 503 with Retry-After. x-request-timeout shortens it for one request: seconds, or milliseconds as 500ms; what cannot be read is answered 400. 0: no request waits, and workers have no limit."},
    {"timeouts.connect", CONFIG_DURATION, AT(timeouts.connect_ms), "2s", 10, 10 * MINUTE, NULL,
     "Connecting to a worker; then the next one is tried."},
    {"timeouts.first_byte", CONFIG_DURATION, AT(timeouts.first_byte_ms), "5m", 10, 24 * HOUR, NULL,
     "From the end of a request to the first byte of its answer; then the next worker is tried."},
    {"timeouts.away_connect", CONFIG_DURATION, AT(timeouts.away_connect_ms), "0", 0, 10 * MINUTE, NULL,
     "As timeouts.connect, for a worker of another island than island.name (neither label is a prefix of the other): longer for a long way. 0: the same."},
    {"timeouts.away_first_byte", CONFIG_DURATION, AT(timeouts.away_first_byte_ms), "0", 0, 24 * HOUR, NULL,
     "As timeouts.first_byte, for such a worker: shorter where a request is to come back soon from an island that is cut off. 0: the same."},
    {"timeouts.stream_idle", CONFIG_DURATION, AT(timeouts.stream_idle_ms), "2m", 10, 24 * HOUR, NULL,
     "Between two pieces of an answer."},
    {"timeouts.upstream_idle", CONFIG_DURATION, AT(timeouts.upstream_idle_ms), "4s", 10, 24 * HOUR, NULL,
     "How long an unused connection to a worker is kept; stay below the engine's own limit (uvicorn: 5s)."},
    {"timeouts.keep_alive", CONFIG_DURATION, AT(timeouts.keep_alive_ms), "15s", 0, HOUR, NULL,
     "How long a client that asked for a stream waits for the first of it until a comment (: keep-alive), which clients pass over, shows that its request is alive; and again so long. Proxies on the way then do not give up while an engine reads a long prompt. The first comment brings the answer's head, of 200: what fails after that is told by an event. 0: no comments."},
    {"timeouts.lame_duck", CONFIG_DURATION, AT(timeouts.lame_duck_ms), "5s", 0, HOUR, NULL,
     "From SIGTERM until the port closes: /ready answers 503 and each answer closes its connection, so that load balancers and clients go elsewhere before."},
    {"timeouts.drain", CONFIG_DURATION, AT(timeouts.drain_ms), "5m", 0, 24 * HOUR, NULL,
     "From the closing of the port until requests that still run are cut off."},

    {"health.path", CONFIG_PATH, AT(health.path), "/health", 0, 0, NULL,
     "Path of the health check; a healthy worker answers a GET of it with 2xx."},
    {"health.interval", CONFIG_DURATION, AT(health.interval_ms), "2s", 10, HOUR, NULL,
     "Time between two health checks of a worker."},
    {"health.timeout", CONFIG_DURATION, AT(health.timeout_ms), "1s", 10, HOUR, NULL,
     "Longest time for one check, scrape or list of models; at most health.interval."},
    {"health.failures", CONFIG_COUNT, AT(health.failures), "3", 1, 1000, NULL,
     "Checks in a row without an answer in time until a worker is down, if no other answers come from it either. A refused connection or a bad answer is enough at once."},
    {"health.successes", CONFIG_COUNT, AT(health.successes), "1", 1, 1000, NULL,
     "Good checks in a row until it is up again."},
    {"health.metrics_interval", CONFIG_DURATION, AT(health.metrics_interval_ms), "1s", 10, HOUR, NULL,
     "Time between two scrapes of a worker's /metrics; twice that while nobody uses the worker."},
    {"health.models_interval", CONFIG_DURATION, AT(health.models_interval_ms), "30s", 10, 24 * HOUR, NULL,
     "Time between two looks at a worker's /v1/models."},

    {"breaker.failures", CONFIG_COUNT, AT(breaker.failures), "5", 1, 10000, NULL,
     "Failed requests in a row until the breaker opens and no more are sent, if the worker also fails clearly more often than the best one; one is enough where another node's breaker is open."},
    {"breaker.successes", CONFIG_COUNT, AT(breaker.successes), "2", 1, 10000, NULL,
     "Trial requests that must succeed in a row before all requests are sent again."},
    {"breaker.open", CONFIG_DURATION, AT(breaker.open_ms), "5s", 10, HOUR, NULL,
     "Pause before the first trial request; it doubles with each one that fails."},
    {"breaker.open_max", CONFIG_DURATION, AT(breaker.open_max_ms), "60s", 10, 24 * HOUR, NULL,
     "Longest pause between two trial requests."},
    {"breaker.max_ejection_percent", CONFIG_COUNT, AT(breaker.max_ejection_percent), "50", 0, 100, NULL,
     "Part of the workers whose breakers may be open at one time, and at least one: what fails everywhere is the requests' fault."},

    {"mesh.listen", CONFIG_LISTEN, AT(mesh.listen), "", 0, 0, NULL,
     "Where other nodes connect; port 0 is a free one. Absent: 127.0.0.1:7946 when mesh.join is set, otherwise no port."},
    {"mesh.advertise", CONFIG_LISTEN, AT(mesh.advertise), "", 0, 0, NULL,
     "The address that other nodes are told; port 0 is that of mesh.listen. Absent: that of mesh.listen."},
    {"mesh.join", CONFIG_PLACES, AT(mesh.join), "", 0, 0, NULL,
     "Where to look for other nodes, again and again; also a list, or --join once for each."},
    {"mesh.cluster", CONFIG_LABEL, AT(mesh.cluster), "kvasir", 0, 0, NULL,
     "Name of the cluster; nodes of another cluster are refused."},
    {"mesh.insecure", CONFIG_CHOICE, AT(mesh.insecure), "false", 0, 0, bool_choices,
     "Allow a mesh port without TLS beyond loopback."},
    {"mesh.tls_ca", CONFIG_FILE, AT(mesh.tls_ca), "", 0, 0, NULL,
     "PEM file of the authority that signed every node's certificate."},
    {"mesh.tls_cert", CONFIG_FILE, AT(mesh.tls_cert), "", 0, 0, NULL,
     "PEM file of this node's certificate."},
    {"mesh.tls_key", CONFIG_FILE, AT(mesh.tls_key), "", 0, 0, NULL,
     "PEM file of its key."},
    {"mesh.tls_server_name", CONFIG_LABEL, AT(mesh.tls_server_name), "", 0, 0, NULL,
     "DNS name that every node's certificate carries."},
    {"mesh.secret_file", CONFIG_FILE, AT(mesh.secret_file), "", 0, 0, NULL,
     "Instead of TLS: file with a secret that all nodes share. It decides who may connect. It encrypts nothing, and frames after the connection's begin are not proven: who can change traffic between nodes, or stand between two of them, can read it and speak in their name. Against that use TLS. With two lines, either one is taken and the first one shown."},
    {"mesh.ingest_replicas", CONFIG_COUNT, AT(mesh.ingest_replicas), "2", 1, MEMBERS_MAX, NULL,
     "Nodes that read each worker's events; the other nodes get them from these."},
    {"mesh.ingest_give_up", CONFIG_DURATION, AT(mesh.ingest_give_up_ms), "5s", 100, HOUR, NULL,
     "A node without a connection to a worker's events for this long lets others read them."},
    {"mesh.log_bytes", CONFIG_SIZE, AT(mesh.log_bytes), "256KiB", 4 * KIB, GIB, NULL,
     "Log of a stream's latest changes, for nodes that missed some; a node that missed more gets the whole stream."},
    {"mesh.logs_bytes_max", CONFIG_SIZE, AT(mesh.logs_bytes_max), "64MiB", MIB, 64 * GIB, NULL,
     "Memory of all streams' logs together."},
    {"mesh.transfers_max", CONFIG_COUNT, AT(mesh.transfers_max), "4", 1, 64, NULL,
     "Whole streams that a node fetches at one time."},
    {"mesh.push", CONFIG_DURATION, AT(mesh.push_ms), "2ms", 1, 1000, NULL,
     "How long changes wait, so that several are sent together."},
    {"mesh.ready", CONFIG_DURATION, AT(mesh.ready_ms), "30s", 10, HOUR, NULL,
     "After this a node counts as ready even if it has not caught up with the others, or engines have not told it what they hold."},
    {"mesh.resolver", CONFIG_LISTEN, AT(mesh.resolver), "", 0, 0, NULL,
     "DNS server to ask for the names of mesh.join and of workers' from, in place of the system's."},

    {"data.dir", CONFIG_FILE, AT(data.dir), "", 0, 0, NULL,
     "Directory for the snapshots of this node, which no other node may use. Absent: no snapshots are taken, and the node starts with an empty index."},
    {"data.interval", CONFIG_DURATION, AT(data.interval_ms), "60s", 10, 24 * HOUR, NULL,
     "Time between two snapshots."},
    {"data.changed", CONFIG_RATIO, AT(data.changed_permille), "0.25", 0, 1000, NULL,
     "Part of the index that must have changed for a snapshot to be taken sooner."},
    {"data.changed_after", CONFIG_DURATION, AT(data.changed_ms), "5s", 10, 24 * HOUR, NULL,
     "Least time between two snapshots in that case."},
    {"data.bytes_max", CONFIG_SIZE, AT(data.bytes_max), "64GiB", 16 * MIB, 1024 * GIB, NULL,
     "Size of a snapshot file; a larger snapshot is not taken."},
    {"data.aside_max", CONFIG_COUNT, AT(data.aside_max), "3", 0, 32, NULL,
     "Unusable snapshot files that are kept for inspection."},

    {"log.level", CONFIG_CHOICE, AT(log.level), "info", 0, 0, level_choices,
     "Lines of this level and of more severe ones are written."},
    {"log.format", CONFIG_CHOICE, AT(log.format), "logfmt", 0, 0, format_choices,
     "key=value, or one JSON object per line."},
    {"log.requests", CONFIG_SAMPLE, AT(log.requests), "off", 1, 1000000, NULL,
     "Requests that have a line when they end, at level info: errors (those that fail, are refused, cut off or left by their client), all, or 1/N (of the others one of N). A line says id, trace, client, tenant, path, model, worker, mode, overlap, failed attempts and why, status, times and tokens, and never a prompt. Of what the node answers itself (/health, /v1/models) only errors have one."},

    {"traces.otlp", CONFIG_WEB, AT(traces.otlp), "", 0, 0, NULL,
     "Collector that is told the spans of requests by OTLP over HTTP, in JSON, at /v1/traces below this URL; http://HOST:4318 of most. With https its certificate must be by an authority of tls.workers_ca_file. Nobody waits for it: what it does not take in time is dropped and counted. Absent: no spans are made."},
    {"traces.ratio", CONFIG_RATIO, AT(traces.ratio_permille), "0.1", 0, 1000, NULL,
     "Part of the requests without a traceparent that are traced. With one its sender has decided: they are when it is sampled."},

    {"kubernetes.api", CONFIG_WEB, AT(kubernetes.api), "", 0, 0, NULL,
     "API server that is asked for EndpointSlices, where a worker's from is kube:...; http:// is for kubectl proxy. Absent: the one that a pod is told (KUBERNETES_SERVICE_HOST and _PORT)."},
    {"kubernetes.dir", CONFIG_FILE, AT(kubernetes.dir), "/var/run/secrets/kubernetes.io/serviceaccount", 0, 0, NULL,
     "Folder of its ca.crt, of the token to show it, and of the namespace where from names none; they are read again each time."},

    {"workers.deny", CONFIG_RANGES, AT(workers_deny), "169.254.0.0/16 fe80::/10", 0, 0, NULL,
     "Addresses that no worker may have, whoever names it or resolves its name; also a list. Absent: those of a link, where clouds keep their metadata."},
    {"workers.resolve", CONFIG_DURATION, AT(workers_resolve_ms), "5s", 100, HOUR, NULL,
     "Time between two looks at the names of workers' from, and at their files beside the notices of the system. A worker that two answers in a row leave out is drained."},
    {"workers.slots", CONFIG_COUNT, AT(workers_slots), "256", 1, CONFIG_WORKERS_MAX, NULL,
     "For how many workers, and ranks whose events are followed, a node needs room. Over 256 kvasir serve becomes kvasir-wide, which has room for 1,024, takes more memory and somewhat longer for each request. The same on all nodes of a mesh: one with less room leaves workers out, and says which."},
    {"workers.max_inflight", CONFIG_COUNT, AT(workers_max_inflight), "0", 0, 1000000, NULL,
     "Requests that one worker gets at one time, from all nodes as far as this one knows. While all that may take a request have so many, it waits here (timeouts.queue): by priority, and tenants of one priority in turns by tokens. 0: as many as it runs, and some more, from when its metrics show that others wait there."},
};

static const struct config_key pool_keys[] = {
    {"hook", CONFIG_WEB, AT_POOL(hook), "", 0, 0, NULL,
     "As scale.hook; one of hook, command and kubernetes. The call has \"pool\":NAME."},
    {"token_file", CONFIG_FILE, AT_POOL(token_file), "", 0, 0, NULL,
     "As scale.token_file, for its hook."},
    {"command", CONFIG_FILE, AT_POOL(command), "", 0, 0, NULL,
     "As scale.command; it has ENGINE_POOL in its environment."},
    {"kubernetes", CONFIG_TEXT, AT_POOL(kubernetes), "", 0, 0, NULL,
     "As scale.kubernetes."},
    {"island", CONFIG_ISLAND, AT_POOL(island), "", 0, 0, NULL,
     "Where its engines are: cloud/region/zone. See island.name."},
    {"price", CONFIG_RATIO, AT_POOL(price_milli), "0", 0, 1000000000, NULL,
     "What an engine costs there an hour."},
    {"min", CONFIG_COUNT, AT_POOL(min), "0", 0, CONFIG_WORKERS_MAX, NULL,
     "Engines that a model has there at least, within scale.max and scale.budget."},
    {"max", CONFIG_COUNT, AT_POOL(max), "1024", 0, CONFIG_WORKERS_MAX, NULL,
     "Engines that a model has there at most. 0: the pool is given up, no more are asked of it; see the features' page."},
    {"worker", CONFIG_TEXT, AT_POOL(worker), "", 0, 0, NULL,
     "As scale.worker; the last key, as all that follows is part of it."},
};

static const struct config_key worker_keys[] = {
    {"url", CONFIG_WEB, AT_WORKER(url), "", 0, 0, NULL,
     "Where its OpenAI API is; required. With https its certificate must be for the url's host, by an authority of tls.workers_ca_file. A /v1 at its end is left out, because requests bring their own."},
    {"events", CONFIG_TCP, AT_WORKER(events), "", 0, 0, NULL,
     "Its ZeroMQ socket of KV events (of its rank 0), tcp://HOST:PORT. Or where a publisher puts them, nats://HOST:PORT/SUBJECT (with several ranks, SUBJECT.RANK); with TLS tls://, where the server's certificate must be for the host, by an authority of tls.workers_ca_file, and is shown tls.workers_cert_file."},
    {"replay", CONFIG_TCP, AT_WORKER(replay), "", 0, 0, NULL,
     "Its ZeroMQ socket that repeats missed KV events. Or the JetStream stream that keeps the subject's messages, nats://HOST:PORT/STREAM, or tls://."},
    {"id", CONFIG_LABEL, AT_WORKER(id), "", 0, 0, NULL,
     "Its name in answers, logs and metrics; absent: HOST:PORT of the url."},
    {"island", CONFIG_ISLAND, AT_WORKER(island), "", 0, 0, NULL,
     "Where it is: cloud/region/zone, or as much of that as matters. See island.name of the node."},
    {"pool", CONFIG_LABEL, AT_WORKER(pool), "", 0, 0, NULL,
     "Name of a group of workers of the same size, for people: what a worker takes its engine tells (max_model_len; see policy.pool_threshold)."},
    {"role", CONFIG_CHOICE, AT_WORKER(role), "both", 0, 0, role_choices,
     "Which part of a request it is for, where engines are split: prefill computes long prompts, decode goes on with them (vLLM with a KV connector, SGLang with --disaggregation-mode). both, or absent: all of it."},
    {"bootstrap_port", CONFIG_COUNT, AT_WORKER(bootstrap_port), ELECT_TEXT(CONFIG_BOOTSTRAP_PORT), 1, 65535, NULL,
     "Of an SGLang with role prefill: its --disaggregation-bootstrap-port, at the url's host as decode workers reach it."},
    {"api_key", CONFIG_SECRET, AT_WORKER(api_key), "", 0, 0, NULL,
     "Sent to it as Authorization: Bearer, in place of the client's."},
    {"blocks_max", CONFIG_COUNT, AT_WORKER(blocks_max), "0", 0, 1000000000, NULL,
     "Blocks it is believed to hold; 0: belief.worker_blocks_max."},
    {"ranks", CONFIG_COUNT, AT_WORKER(ranks), "1", 1, 64, NULL,
     "Its data-parallel ranks; each rank's event port is one above the port of the rank before."},
    {"topic", CONFIG_LABEL, AT_WORKER(topic), "", 0, 0, NULL,
     "Topic of its KV events, exactly; absent: every one is taken."},
    {"sse", CONFIG_WEB, AT_WORKER(sse), "", 0, 0, NULL,
     "A sidecar's stream of cache events (Server-Sent Events), instead of events; by https it must show a good certificate, as workers must."},
    {"from", CONFIG_TEXT, AT_WORKER(from), "", 0, 0, NULL,
     "In place of url: what names workers while the node runs. dns:NAME:PORT (each address of the name is a worker), srv:NAME (each address of each target), file:/PATH (a list as this one, read again as soon as it changes) or kube:[NAMESPACE:]LABEL=VALUE:PORT (each ready endpoint of the EndpointSlices with that label, or with several, + between them; the port's name or number; Kubernetes tells of changes at once); also as URL[,KEY=VALUE]..., in place of the URL. events and replay are tcp://*:PORT then: the host is that of each worker, and what else is said here is so of each. A worker that is not named any more is drained, then removed; a name that cannot be looked up, and a file with a fault, change nothing. workers.resolve says how often names are looked up."},
};
/* clang-format on */

#define LEN(array) (sizeof(array) / sizeof(array)[0])

_Static_assert(LEN(worker_keys) == CONFIG_WORKER_FROM + 1, "from is the last");
_Static_assert(LEN(pool_keys) == CONFIG_POOL_WORKER + 1, "worker is the last");
_Static_assert(LEN(node_keys) <= CONFIG_KEYS_MAX, "room for all keys");

const struct config_schema config_schema_node = {
    .keys = node_keys,
    .count = LEN(node_keys),
};

const struct config_schema config_schema_pool = {
    .keys = pool_keys,
    .count = LEN(pool_keys),
};

const struct config_schema config_schema_worker = {
    .keys = worker_keys,
    .count = LEN(worker_keys),
};

const struct config_section *
config_schema_section(size_t at)
{
    return at < LEN(sections) ? &sections[at] : NULL;
}

const struct config_key *
config_schema_find(const struct config_schema *schema, struct slice name)
{
    for (size_t i = 0; i < schema->count; i++) {
        if (slice_equal(slice_of(schema->keys[i].name), name)) {
            return &schema->keys[i];
        }
    }
    return NULL;
}

const struct config_key *
config_schema_find_in(const struct config_schema *schema, struct slice section,
                      struct slice last)
{
    for (size_t i = 0; i < schema->count; i++) {
        const struct config_key *key = &schema->keys[i];
        if (slice_equal(config_key_section(key), section) &&
            slice_equal(slice_of(config_key_last(key)), last)) {
            return key;
        }
    }
    return NULL;
}

bool
config_section_is_flat(struct slice name)
{
    return name.len != 0 &&
           (slice_equal(name, SLICE("workers")) ||
            config_schema_find(&config_schema_node, name) != NULL);
}

struct slice
config_key_section(const struct config_key *key)
{
    const char *dot = strchr(key->name, '.');

    return (struct slice){.ptr = key->name,
                          .len = dot != NULL ? (size_t)(dot - key->name) : 0};
}

const char *
config_key_last(const struct config_key *key)
{
    const char *dot = strchr(key->name, '.');

    return dot != NULL ? dot + 1 : key->name;
}

const char *
config_key_environment(const struct config_key *key,
                       char out[CONFIG_KEY_NAME_MAX + 8])
{
    size_t len = strlen(key->name);

    CHECK(len < CONFIG_KEY_NAME_MAX);
    memcpy(out, "KVASIR_", 7);
    for (size_t i = 0; i <= len; i++) {
        char c = key->name[i];
        out[7 + i] = c == '.'               ? '_'
                     : c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A')
                                            : c;
    }
    return out;
}

void
config_schema_defaults(const struct config_schema *schema, void *into)
{
    for (size_t i = 0; i < schema->count; i++) {
        const struct config_key *key = &schema->keys[i];
        bool good = key->fallback[0] == '\0' ||
                    config_value_set(key, slice_of(key->fallback), into);
        CHECK(good);
    }
}

const char *
config_role_name(enum config_role role)
{
    CHECK(role <= CONFIG_ROLE_DECODE);
    return role_choices[role];
}
