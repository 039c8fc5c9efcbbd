/*
 * A node's configuration: one struct, filled from defaults, then a YAML file,
 * then KVASIR_* environment variables, then flags; later sources win.
 *
 * Every key is one row of a table (config_schema.c): its name, type, bounds,
 * default and meaning. The file reader, the environment, the flags, the help
 * and the printed reference all come from that table, so they cannot differ.
 * Key `section.key` is KVASIR_SECTION_KEY in the environment and --section.key
 * on the command line. Values are taken literally: there is no ${VARIABLE}
 * substitution; the environment overrides instead.
 *
 * A faulty configuration is never used in part: every fault of every source is
 * reported, with file:line:column and what was expected.
 *
 * Role: core, except for config_load(), which reads the file, the host's name
 * and its number of CPUs. Owns: the list of workers. Thread: one owner;
 * read-only once loaded. Limits: CONFIG_FILE_BYTES_MAX, CONFIG_ERRORS_MAX,
 * CONFIG_WORKERS_MAX. Errors: named outcomes, and lines in struct
 * config_errors.
 */
#ifndef NODE_CONFIG_H
#define NODE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "index/base/worker_set.h"
#include "mesh/mesh.h"
#include "node/base/log.h"
#include "node/limits/limits_rate.h"
#include "node/scale/scale_pool.h"
#include "node/text/ranges.h"
#include "node/text/url.h"

#define CONFIG_FILE_BYTES_MAX    ((size_t)1 << 20)
#define CONFIG_ERRORS_MAX        100 /* further ones are counted, not printed */
#define CONFIG_LABEL_MAX         64  /* a name or label and its NUL */
#define CONFIG_SECRET_MAX        256 /* an API key and its NUL */
#define CONFIG_TEXT_MAX          256 /* a text and its NUL */
#define CONFIG_FILE_MAX          256 /* a file's path and its NUL */
#define CONFIG_PATHS_MAX         1024 /* paths between blanks and their NUL */
#define CONFIG_NAMES_MAX         192  /* the same of names */
#define CONFIG_ORIGINS_MAX       2048 /* the same of origins */
#define CONFIG_NAMES_COUNT       4U
#define CONFIG_WORKERS_MAX       1024U
#define CONFIG_JOINS_MAX         32  /* places to look for other nodes */
#define CONFIG_MODELS_MAX        32  /* models that are named one by one */
#define CONFIG_MODEL_NAME_MAX    192 /* a model's name and its NUL */
#define CONFIG_LIMIT_MODEL_MAX   128 /* the same, of one with limits */
#define CONFIG_LANES_MAX         64
#define CONFIG_CHOICES_MAX       16 /* models with a choice of their own */
#define CONFIG_ALIASES_MAX       32 /* other names of models */
#define CONFIG_LINKS_MAX         64 /* between islands */
#define CONFIG_ALIAS_TARGETS_MAX 8U /* models behind one */
#define CONFIG_ALIAS_WEIGHT_MAX  1000000U
/* mirror.expected by default: longer than engines let requests wait. */
#define CONFIG_EXPECTED_S   60
#define CONFIG_ATTEMPTS_MAX 8 /* workers tried for one request */

/* Which part of a request a worker is for. */
enum config_role {
    CONFIG_ROLE_BOTH,
    CONFIG_ROLE_PREFILL, /* computes prompts for others to go on with */
    CONFIG_ROLE_DECODE,  /* goes on with them */
};

/* "both", "prefill", "decode". Static text. */
const char *config_role_name(enum config_role role);

#define CONFIG_BOOTSTRAP_PORT 8998 /* SGLang's default */

/* One engine. Strings are "" when absent. */
struct config_worker {
    struct url url;    /* http or https; required, unique */
    struct url events; /* tcp: its KV event socket, or nats: their subject; host
                          "" when absent */
    struct url replay; /* tcp: its replay socket, or nats: the stream that keeps
                          them; host "" when absent */
    char id[CONFIG_LABEL_MAX];     /* unique; default: host:port of url */
    char island[CONFIG_LABEL_MAX]; /* where it is: cloud/region/zone */
    char pool[CONFIG_LABEL_MAX];   /* workers of the same size */
    uint32_t role;                 /* enum config_role */
    uint32_t bootstrap_port;       /* of an SGLang with role prefill */
    char api_key
        [CONFIG_SECRET_MAX]; /* Authorization: Bearer, not the client's */
    uint32_t blocks_max;     /* 0: belief.worker_blocks_max */
    uint32_t ranks; /* data-parallel ranks; their event ports follow on */
    char topic[CONFIG_LABEL_MAX]; /* of its events, exactly; "": any */
    struct url sse;               /* http: a sidecar's stream of cache events */
    /* In the list of a configuration, in place of a url: what names workers of
     * this kind while the node runs, as config_from() reads it. Of a worker
     * that was named so: what named it. "": neither. */
    char from[CONFIG_TEXT_MAX];
    bool left; /* ... names it no more, and had it drain; never configured */
};

/* What names workers. */
enum config_from {
    CONFIG_FROM_NONE, /* the worker has a url */
    CONFIG_FROM_DNS,  /* dns:NAME:PORT or srv:NAME */
    CONFIG_FROM_FILE, /* file:/PATH */
    CONFIG_FROM_KUBE, /* kube:[NAMESPACE:]LABEL=VALUE:PORT */
};

/* EndpointSlices of Kubernetes that name workers. */
struct config_kube {
    char space[64];               /* namespace; "": that of the pod */
    char labels[CONFIG_TEXT_MAX]; /* a label selector: LABEL=VALUE,... */
    char port[64];                /* its name or number */
};

#define CONFIG_SOURCES_MAX 32 /* workers of a list with a from */
/* The host of a source's events and replay: that of each worker. */
#define CONFIG_EACH_HOST "*"

/* Who may use the admin port, and a port for those who may not. */
struct config_admin {
    uint32_t insecure; /* 1: without a token, not only loopback */
    char token_file[CONFIG_FILE_MAX]; /* "": no token is needed */
    struct url metrics; /* /metrics, /health, /ready alone; host "": none */
};

#define CONFIG_FALLBACKS_MAX 7

/* Gateways that ask which worker is to have a request. */
struct config_extproc {
    struct url listen;  /* host "": none do */
    uint32_t fallbacks; /* workers to try after the first that are told */
};

/* Who may send requests. */
struct config_key_file {
    char file[CONFIG_FILE_MAX]; /* "": everybody */
};

/* Models chosen by what requests say. */
struct config_content_file {
    char file[CONFIG_FILE_MAX];             /* "": there are no rules */
    char embeddings_model[CONFIG_TEXT_MAX]; /* of /v1/embeddings; "": none */
    uint32_t embeddings_wait_ms;            /* for a vector */
};

/* Tokens that clients may send in place of keys. */
struct config_jwt {
    char jwks[CONFIG_FILE_MAX];    /* a file, or https://...; "": none */
    char ca_file[CONFIG_FILE_MAX]; /* of that URL; "": the system's */
    uint32_t refresh_ms;
    char issuer[CONFIG_TEXT_MAX];   /* "": any */
    char audience[CONFIG_TEXT_MAX]; /* "": any */
    char tenant_claim[CONFIG_TEXT_MAX];
    char default_tenant[CONFIG_LABEL_MAX]; /* "": a token must name one */
    uint32_t leeway_ms;
};

/* Each certificate with its key, or neither. */
struct config_tls {
    char cert_file[CONFIG_FILE_MAX]; /* the serving port's */
    char key_file[CONFIG_FILE_MAX];
    char client_ca_file[CONFIG_FILE_MAX]; /* "": clients need no
                                                certificate */
    uint32_t admin; /* 1: the ports of admin and admin.metrics, too */
    char admin_cert_file[CONFIG_FILE_MAX]; /* theirs; "": cert_file */
    char admin_key_file[CONFIG_FILE_MAX];
    char workers_ca_file[CONFIG_FILE_MAX];   /* "": the system's */
    char workers_cert_file[CONFIG_FILE_MAX]; /* shown to workers; "": none */
    char workers_key_file[CONFIG_FILE_MAX];
};

/* What is chosen for a model; a * at its name's end: all that begin so. */
struct config_choice {
    char model[CONFIG_MODEL_NAME_MAX];
    uint32_t choice; /* index into the key's choices */
};

struct config_choices {
    uint32_t count;
    struct config_choice of[CONFIG_CHOICES_MAX];
};

struct config_policy {
    uint32_t name;                     /* enum elect_policy */
    struct config_choices models;      /* the same, of some models' requests */
    uint32_t cache_threshold_permille; /* of the prompt's blocks */
    uint32_t recompute_weight;         /* of a token; 0: tokens do not count */
    uint32_t split_tokens; /* not computed yet, from which on roles split */
    uint32_t balance_abs;  /* requests in flight */
    uint32_t balance_rel_permille;     /* 1500: one and a half times */
    uint32_t kv_pressure_max_permille; /* of an engine's KV cache in use */
    uint32_t temperature_permille;     /* of dynamo's choice */
    uint32_t pool_threshold;           /* tokens; 0: pools do not count */
    uint32_t pool_spill;               /* requests */
    uint32_t pool_tune;                /* 0 or 1 */
    uint32_t attempts_max;             /* workers tried per request */
};

/* Times that a model's answers are to keep; 0: any. */
struct config_slo_model {
    char name[CONFIG_MODEL_NAME_MAX];
    uint32_t ttft_ms;
    uint32_t itl_ms;
};

struct config_slos {
    uint32_t count;
    struct config_slo_model model[CONFIG_MODELS_MAX];
};

struct config_slo {
    uint32_t ttft_ms; /* of other models */
    uint32_t itl_ms;
    struct config_slos models;
};

/* What it costs to send a request from one island to another, or back. Both
 * ends are prefixes of labels. */
struct config_link {
    char from[CONFIG_LABEL_MAX];
    char to[CONFIG_LABEL_MAX];
    uint32_t ms;
    bool measured;        /* it is what is measured, and no ms are given */
    uint32_t price_milli; /* of a GB that crosses, either way */
};

struct config_links {
    uint32_t count;
    struct config_link link[CONFIG_LINKS_MAX];
};

struct config_island {
    char name[CONFIG_LABEL_MAX]; /* where this node is; "": not told */
    struct config_links links;
};

/* Whether the kernel holds the node to what it does (node/cli/sandbox.c). */
enum config_sandbox {
    CONFIG_SANDBOX_AUTO, /* as far as it can be had */
    CONFIG_SANDBOX_OFF,
    CONFIG_SANDBOX_REQUIRE,
};

enum config_scale_mode {
    CONFIG_SCALE_OFF,
    CONFIG_SCALE_DRY_RUN, /* says what it would do, and does nothing */
    CONFIG_SCALE_ACT,
};

/* Where engines are made, and by what: one of hook, command and kubernetes. */
struct config_scale_pool {
    char name[SCALE_POOL_MAX]; /* "": of the keys of scale itself */
    struct url hook; /* what makes engines and ends them; no host: none */
    char token_file[CONFIG_FILE_MAX]; /* what is shown to it; "": nothing */
    char command[CONFIG_FILE_MAX];    /* the same as a program; "": none */
    char kubernetes[CONFIG_TEXT_MAX]; /* [NAMESPACE/]NAME; "": none */
    char worker[CONFIG_TEXT_MAX];     /* its pods as workers; see there */
    char island[CONFIG_LABEL_MAX];    /* of its engines; "": not told */
    uint32_t min;                     /* of a model's engines there */
    uint32_t max;                     /* of a pool with a name */
    uint32_t price_milli;             /* of an engine an hour */
};

struct config_scale_pools {
    uint32_t count;
    struct config_scale_pool pool[SCALE_POOLS_MAX];
};

/* How many engines there should be: see node/scale/scale.h. */
struct config_scale {
    uint32_t mode; /* enum config_scale_mode */
    uint32_t min;  /* of a model's engines */
    uint32_t max;
    uint32_t target_permille;
    uint32_t step;
    uint32_t budget_milli;
    uint32_t provision_ms;
    uint32_t cool_down_ms;
    struct config_scale_pool own; /* where none has a name */
    struct config_scale_pools pools;
    uint32_t within_ms; /* of the requests' island; 0: any */
    uint32_t quorum;    /* of nodes, without which none acts */
};

/* Requests of one session go to one worker. */
struct config_affinity {
    uint32_t mode; /* enum session_mode */
    char headers[CONFIG_NAMES_MAX];
    char fields[CONFIG_NAMES_MAX]; /* of the body */
};

struct config_belief {
    uint32_t block_bytes; /* of prompt text in one block */
    uint64_t bytes_max;   /* memory of the tree */
    uint32_t namespaces_max;
    uint32_t depth_max;         /* blocks of one prefix */
    uint32_t worker_blocks_max; /* blocks a worker is believed to hold */
    uint32_t eviction;          /* enum radix_eviction */
};

/* What engines' events tell, and how it is followed. */
struct config_mirror {
    uint64_t bytes_max;          /* of the index */
    uint64_t ledger_bytes_max;   /* of engines' block names */
    uint64_t expected_bytes_max; /* of blocks on their way */
    uint32_t expected_ms;        /* how long a decision counts as on its way */
    uint32_t host_permille;      /* a block in host memory, of one in the GPU */
    uint32_t disk_permille;
    uint32_t external_permille;
    uint32_t stale_permille; /* trust in a stream that misses events */
    uint32_t wrong_permille; /* of answers that differ: read again */
};

struct config_events {
    uint32_t replay_timeout_ms; /* of silence within one round */
    uint32_t replay_rounds;
    uint32_t probe_ms;          /* between looks for a lost tail */
    uint32_t silence_ms;        /* without events despite requests: log it */
    uint64_t pending_bytes_max; /* per stream, while a replay runs */
    uint64_t payload_bytes_max; /* of one batch */
    uint32_t hwm;               /* messages that ZeroMQ keeps per socket */
    char nats_login[CONFIG_SECRET_MAX];    /* USER:PASSWORD, a token, or "" */
    char nats_creds_file[CONFIG_FILE_MAX]; /* in its place; "": none */
    /* Those of tls.workers_*, by config_complete_events(). */
    char nats_ca_file[CONFIG_FILE_MAX];
    char nats_cert_file[CONFIG_FILE_MAX];
    char nats_key_file[CONFIG_FILE_MAX];
};

/* How a message's content reaches a model's template. */
enum config_content {
    CONFIG_CONTENT_AUTO, /* as engines find out from the template */
    CONFIG_CONTENT_STRING,
    CONFIG_CONTENT_PARTS, /* a list of parts */
};

/* A model's own files. */
struct config_model {
    char name[CONFIG_MODEL_NAME_MAX];
    char path[CONFIG_FILE_MAX];     /* a folder, or the tokenizer's file */
    char template[CONFIG_FILE_MAX]; /* a file; "": the folder's */
    uint32_t content;               /* enum config_content */
};

struct config_models {
    uint32_t count;
    struct config_model model[CONFIG_MODELS_MAX];
};

/* A model behind an alias, by the name that engines serve it under. */
struct config_alias_target {
    char model[CONFIG_MODEL_NAME_MAX];
    uint32_t weight; /* of its share of conversations; 0: a fall-back */
};

/* A name that clients may ask for, and the models that answer. */
struct config_alias {
    char name[CONFIG_MODEL_NAME_MAX];
    uint32_t targets_count; /* fall-backs last */
    struct config_alias_target target[CONFIG_ALIAS_TARGETS_MAX];
};

struct config_aliases {
    uint32_t count;
    struct config_alias alias[CONFIG_ALIASES_MAX];
};

struct config_tokens {
    uint32_t wait_ms;            /* for an engine's renderer; 0: never ask */
    uint32_t timeout_ms;         /* after which an answer is not taken */
    uint64_t cache_bytes_max;    /* of all lanes */
    uint32_t open_max;           /* questions at one time, per lane */
    char dir[CONFIG_FILE_MAX];   /* of models' own files; "": none */
    struct config_models models; /* beside those in dir, and before them */
};

/* Per node unless said otherwise. */
struct config_answer_cache {
    uint64_t bytes_max; /* 0: there is none */
    uint32_t ttl_ms;
    uint32_t wait_ms;            /* for the first of a kind; 0: nobody waits */
    uint32_t seeded;             /* 1: a seed does for temperature 0 */
    char redis[CONFIG_TEXT_MAX]; /* that nodes share; "": none */
    char redis_file[CONFIG_FILE_MAX];     /* with it: secret, password */
    uint32_t redis_wait_ms;               /* for a reply */
    char semantic_model[CONFIG_TEXT_MAX]; /* of /v1/embeddings; "": none */
    uint32_t semantic_permille;           /* the cosine wanted, at least */
    uint32_t semantic_wait_ms;            /* for a vector */
};

struct config_usage {
    uint32_t ask; /* 1: for streams, on behalf of their clients */
};

struct config_limits {
    uint32_t connections_max;        /* from clients */
    uint32_t client_connections_max; /* of one address; 0: see quota.h */
    uint32_t inflight_max;           /* requests being served */
    uint64_t head_bytes_max;         /* of a request or a response */
    uint32_t headers_max;            /* fields of one head */
    uint64_t target_bytes_max;       /* of a request line's target */
    uint64_t body_bytes_max;         /* of one request */
    uint64_t body_rate_min;          /* bytes a second of a body; 0: any */
    uint64_t buffered_bytes_max;     /* of all request bodies held */
    uint64_t client_bytes_max;       /* ... for one address; 0: see quota.h */
    uint32_t json_depth_max;         /* nesting of a body */
    uint32_t spans_max;              /* pieces of prompt looked at */
    uint32_t upstream_idle_max;      /* kept connections per worker and lane */
    uint32_t admin_connections_max;
    uint32_t decisions_max;          /* remembered for /admin/decisions */
    uint64_t decision_columns_bytes; /* for what elections compared; 0: none */
    uint32_t queue_max;              /* requests that wait for a worker */
    /* Of each tenant without its own; in the whole mesh. */
    struct limits_rate tenant_requests;
    struct limits_rate tenant_tokens;
    uint32_t tenant_concurrent; /* 0: none */
};

/* What all tenants together may ask for of one model. */
struct config_model_limit {
    char name[CONFIG_LIMIT_MODEL_MAX];   /* with a * at its end all that begin
                                          so, together */
    struct limits_rate rate[LIMITS_OFS]; /* amount 0: none */
};

struct config_model_limits {
    uint32_t count;
    struct config_model_limit model[CONFIG_MODELS_MAX];
};

struct config_timeouts {
    uint32_t head_ms;         /* from a connection's first byte to its head */
    uint32_t body_ms;         /* between two pieces of a request body */
    uint32_t body_total_ms;   /* of the whole body */
    uint32_t idle_ms;         /* a client connection between requests */
    uint32_t write_ms;        /* a client that takes nothing */
    uint32_t queue_ms;        /* for a worker that has room; 0: none */
    uint32_t connect_ms;      /* to a worker */
    uint32_t first_byte_ms;   /* of an answer, from the request's last */
    uint32_t away_connect_ms; /* to one of another island; 0: the same */
    uint32_t away_first_byte_ms;
    uint32_t stream_idle_ms;   /* between two pieces of an answer */
    uint32_t upstream_idle_ms; /* a kept connection to a worker */
    uint32_t keep_alive_ms;    /* of a stream without a byte, to a comment */
    uint32_t lame_duck_ms;     /* from SIGTERM until nothing new is taken */
    uint32_t drain_ms;         /* from then on until what runs is cut off */
};

struct config_health {
    char path[URL_PATH_MAX];      /* GET that must answer 2xx */
    uint32_t interval_ms;         /* between two checks of a worker */
    uint32_t timeout_ms;          /* of one check */
    uint32_t failures;            /* in a row until it is down */
    uint32_t successes;           /* in a row until it is up again */
    uint32_t metrics_interval_ms; /* between two scrapes of its /metrics */
    uint32_t models_interval_ms;  /* between two looks at its /v1/models */
};

/* Per worker, fed by requests. */
struct config_breaker {
    uint32_t failures;    /* in a row until it opens */
    uint32_t successes;   /* of trial requests in a row until it closes */
    uint32_t open_ms;     /* before the first trial; doubles per reopening */
    uint32_t open_max_ms; /* ... up to this */
    uint32_t max_ejection_percent; /* of the workers, open at one time */
};

/* Statuses of HTTP answers, 400 to 599. */
struct config_statuses {
    uint64_t bits[4]; /* from 400 on */
};

/* Whether the status is one of them; any number is fine. */
static inline bool
config_statuses_has(const struct config_statuses *set, unsigned status)
{
    return status >= 400 && status < 600 &&
           (set->bits[(status - 400) / 64] >> (status - 400) % 64 & 1) != 0;
}

/* When a request that a worker failed goes to another one. */
struct config_retries {
    struct config_statuses statuses; /* that count as a failure */
    uint32_t after_send; /* times that a request is sent again in full */
    uint32_t streams;    /* enum resume_rule */
};

/* Where to look for other nodes. */
struct config_joins {
    uint32_t count;
    struct discover_join join[CONFIG_JOINS_MAX];
};

struct config_mesh {
    struct url listen;    /* host is an IP address; "": no port is opened */
    bool listen_later;    /* it may be missing: see struct config_sources */
    struct url advertise; /* the same; "": as listen */
    struct config_joins join;
    char cluster[CONFIG_LABEL_MAX];
    uint32_t insecure;            /* 1: without TLS, not only loopback */
    char tls_ca[CONFIG_FILE_MAX]; /* all four or none */
    char tls_cert[CONFIG_FILE_MAX];
    char tls_key[CONFIG_FILE_MAX];
    char tls_server_name[CONFIG_LABEL_MAX];
    char secret_file[CONFIG_FILE_MAX]; /* instead of them; "": none */
    uint32_t ingest_replicas;          /* nodes that read a worker's events */
    uint32_t ingest_give_up_ms;        /* without a connection to them */
    uint64_t log_bytes;                /* of one stream's latest changes */
    uint64_t logs_bytes_max;           /* ... of all streams */
    uint32_t transfers_max;            /* whole streams fetched at one time */
    uint32_t push_ms;                  /* changes wait, to be sent together */
    uint32_t ready_ms;   /* until /ready waits for peers no longer */
    struct url resolver; /* of --join's names; host "": the system's */
};

/* What survives a restart. */
struct config_cors {
    char origins[CONFIG_ORIGINS_MAX]; /* http_cors.h; "": none */
};

struct config_messages {
    uint32_t cache_control; /* 1: requests without one get one */
};

struct config_data {
    char dir[CONFIG_FILE_MAX]; /* "": no snapshots are taken */
    uint32_t interval_ms;      /* between two snapshots */
    uint32_t changed_permille; /* of the index: a snapshot comes sooner, */
    uint32_t changed_ms;       /* ... but not before this */
    uint64_t bytes_max;        /* of a file */
    uint32_t aside_max;        /* damaged files that are kept */
};

struct config_log {
    uint32_t level;    /* enum log_level */
    uint32_t format;   /* enum log_format */
    uint32_t requests; /* CONFIG_LOG_OFF, CONFIG_LOG_ERRORS, or N: those that
                          fail, and of the others one of N */
};

/* The API server that workers with a from of kube: are asked of. */
struct config_kubernetes {
    struct url api;            /* host "": as a pod is told */
    char dir[CONFIG_FILE_MAX]; /* token, ca.crt, namespace */
};

/* Where spans of requests are told. */
struct config_traces {
    struct url otlp;         /* of a collector; host "": nowhere */
    uint32_t ratio_permille; /* of requests without a traceparent */
};

#define CONFIG_LOG_OFF    0U
#define CONFIG_LOG_ERRORS UINT32_MAX

struct config {
    char name[CONFIG_LABEL_MAX]; /* of this node; default: the host's name */
    struct url listen;           /* serving port; host is an IP address */
    struct url admin;            /* admin port; host is an IP address */
    struct config_admin admin_access;
    struct config_extproc extproc;
    struct config_key_file keys;
    struct config_jwt jwt;
    struct config_tls tls;
    uint32_t lanes;   /* after config_load() never 0; default: the CPUs */
    uint32_t sandbox; /* enum config_sandbox */
    char paths[CONFIG_PATHS_MAX]; /* forwarded beside those of inference */
    uint32_t placement_headers;   /* 1: clients are told where requests went */
    struct config_cors cors;
    struct config_messages messages;
    struct config_aliases aliases;
    struct config_content_file content;
    struct config_policy policy;
    struct config_slo slo;
    struct config_island island;
    struct config_scale scale;
    struct config_affinity affinity;
    struct config_retries retries;
    struct config_belief belief;
    struct config_mirror mirror;
    struct config_events events;
    struct config_tokens tokens;
    struct config_usage usage;
    struct config_answer_cache answer_cache;
    struct config_limits limits;
    struct config_model_limits model_limits;
    struct config_timeouts timeouts;
    struct config_health health;
    struct config_breaker breaker;
    struct config_mesh mesh;
    struct config_data data;
    struct config_log log;
    struct config_traces traces;
    struct config_kubernetes kubernetes;
    struct ranges workers_deny;    /* addresses that no worker may have */
    uint32_t workers_resolve_ms;   /* between two looks at their sources */
    uint32_t workers_max_inflight; /* requests of one; 0: learned */
    uint32_t workers_slots;        /* of those that there may be */
    struct config_worker *workers; /* owned, CONFIG_WORKERS_MAX at most */
    uint32_t workers_count;
};

/* One line per fault, in the order of the sources. */
struct config_errors {
    struct buf text;  /* complete lines, each ending in a newline */
    uint32_t printed; /* lines in text */
    uint32_t count;   /* faults, printed or not */
};

/* One `--key value` of the command line; borrowed. */
struct config_flag {
    const char *key; /* without the dashes */
    const char *value;
};

/* Where a configuration comes from; everything borrowed. */
struct config_sources {
    const char *file;         /* path, "-" for stdin, or NULL */
    char *const *environment; /* as environ; NULL: none */
    const struct config_flag *flags;
    size_t flags_count;
    bool shared; /* the file is for several nodes, each of which adds its own
                    mesh.listen: its absence is a risk, and no fault */
};

enum {
    CONFIG_E_INVALID = 1, /* see the errors; *config holds the defaults */
};

/* No faults yet. */
void config_errors_init(struct config_errors *errors);

/* Frees the lines. */
void config_errors_fini(struct config_errors *errors);

/* Every key at its default, no workers, name "", lanes 0. *config is the
 * caller's to config_fini(). */
void config_init(struct config *config);

/* Frees the list of workers. */
void config_fini(struct config *config);

/*
 * Defaults, then each source, then the checks across keys, then what only the
 * machine knows (name, lanes). *config is initialised by this call and is the
 * caller's to config_fini() in every case. 0 or CONFIG_E_INVALID.
 */
int config_load(const struct config_sources *sources, struct config *config,
                struct config_errors *errors) MUST_CHECK;

/* The parts of config_load(), in its order. Each stores the values that are
 * right and adds a line to errors for each that is not; all is borrowed for the
 * call. `file` names the source in those lines. */
void config_apply_yaml(struct config *config, const char *file,
                       struct slice bytes, struct config_errors *errors);
void config_apply_environment(struct config *config, char *const *environment,
                              struct config_errors *errors);
void config_apply_flags(struct config *config, const struct config_flag *flags,
                        size_t count, struct config_errors *errors);

/* What events take over from other keys. */
void config_complete_events(struct config *config);

/* Checks what ties several keys together; adds a line for each fault. */
void config_check(const struct config *config, struct config_errors *errors);

/* Adds a line for each thing that is allowed and probably not meant. */
void config_risks(const struct config *config, struct buf *out);

/* Whether clients that nobody knows would have requests sent with this key of a
 * worker's ("": it has none). */
bool config_lends_key(const struct config *config, const char *api_key);

/*
 * One worker as written after --worker: URL[,events=URL][,KEY=VALUE]...
 * `where` starts each error line. 0 and *worker, or CONFIG_E_INVALID.
 */
int config_parse_worker(struct slice text, const char *where,
                        struct config_worker *worker,
                        struct config_errors *errors) MUST_CHECK;

/* The same key by key, for the admin API: start from all zero, set each key,
 * then end. Stores the value of a key; `where` starts the line of a fault. 0,
 * or CONFIG_E_INVALID and the worker is unchanged. */
int config_worker_set(struct config_worker *worker, struct slice key,
                      struct slice value, const char *where,
                      struct config_errors *errors);

/* The same of keys of which none may come twice; *seen is theirs, 0 at first. */
int config_worker_set_once(struct config_worker *worker, struct slice key,
                           struct slice value, const char *where,
                           uint64_t *seen, struct config_errors *errors);

/* Wants a url, and events with replay; leaves out a /v1 at the url's end, and
 * gives a worker without id its default one. 0, or CONFIG_E_INVALID. */
int config_worker_end(struct config_worker *worker, const char *where,
                      struct config_errors *errors) MUST_CHECK;

/*
 * What a worker's `from` says: into *join where it is a DNS name (join may be
 * NULL), into *path (into from) where it is a file. CONFIG_FROM_NONE: it is "",
 * or none of these.
 */
enum config_from config_from(const struct config_worker *worker,
                             struct discover_join *join, const char **path);

/* The same of CONFIG_FROM_KUBE. False: it is no such. */
bool config_from_kube(const struct config_worker *worker,
                      struct config_kube *kube);

/* The workers that a file of workers lists, into config->workers of a
 * configuration of its own: a list as that of `workers`, or a mapping with
 * nothing but such a list. Adds a line for each fault; without one each of them
 * has `from`. */
void config_read_workers(struct config *config, const char *from,
                         const char *path, struct config_errors *errors);

/* The first that fits the model, or NULL. */
const struct config_choice *
config_choices_find(const struct config_choices *choices, struct slice model);

/* The alias of that name, or NULL. */
const struct config_alias *
config_aliases_find(const struct config_aliases *aliases, struct slice name);

/* Appends what is in force, as YAML that config_apply_yaml() reads back. API
 * keys are left out. out->failed when it has no room; so with the next two. */
void config_print(const struct config *config, struct buf *out);

/* Appends every key as an option, with default and meaning, for --help. */
void config_print_flags(struct buf *out);

/* Appends the reference: every key with type, default, bounds, environment name
 * and meaning. */
void config_print_reference(struct buf *out);

/* Appends a JSON schema (draft 7) of the file, for editors. */
void config_print_schema(struct buf *out);

#endif
