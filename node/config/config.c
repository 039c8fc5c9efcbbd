/*
 * Loads a configuration: defaults, file, environment, flags, then the checks
 * that tie several keys together.
 */
#include "node/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "node/config/config_access.h"
#include "node/config/config_aliases_internal.h"
#include "node/config/config_apply_internal.h"
#include "node/config/config_content.h"
#include "node/config/config_jwt.h"
#include "node/config/config_keys.h"
#include "node/config/config_mesh.h"
#include "node/config/config_redis.h"
#include "node/config/config_scale.h"

enum {
    E_IRREGULAR = 1 /* a FIFO, a device, a directory */
};

void
config_init(struct config *config)
{
    *config = (struct config){.workers_count = 0};
    config_schema_defaults(&config_schema_node, config);
}

void
config_fini(struct config *config)
{
    config_apply_no_workers(config);
}

/* The list of workers in the environment, separated by blanks. */
static void
apply_worker_list(struct config *config, const char *text,
                  const struct config_place *place,
                  struct config_errors *errors)
{
    struct slice rest = slice_of(text);
    struct slice word;

    config_apply_no_workers(config);
    while ((word = slice_take_word(&rest)).len != 0) {
        struct config_worker worker;
        if (config_parse_worker(word, place->source, &worker, errors) == 0) {
            config_apply_worker(config, &worker, place, errors);
        }
    }
}

/* What Kubernetes sets for a service named kvasir-mesh: MESH_SERVICE_HOST,
 * MESH_PORT, MESH_PORT_7946_TCP. No key has such a name. */
static bool
is_of_kubernetes(struct slice name)
{
    struct slice port = SLICE("_PORT");

    return memmem(name.ptr, name.len, "_SERVICE_", 9) != NULL ||
           memmem(name.ptr, name.len, "_PORT_", 6) != NULL ||
           (name.len > port.len &&
            memcmp(name.ptr + name.len - port.len, port.ptr, port.len) == 0);
}

/* Under a section's prefix every name must be a key; elsewhere it may be
 * another program's, such as the KVASIR_SERVICE_HOST of Kubernetes. */
static bool
is_ours(struct slice name)
{
    const struct config_section *section;

    if (is_of_kubernetes(name)) {
        return false;
    }
    for (size_t i = 0; (section = config_schema_section(i)) != NULL; i++) {
        struct slice start = {name.ptr, strlen(section->name)};
        if (name.len > start.len && name.ptr[start.len] == '_' &&
            slice_equal_nocase(start, slice_of(section->name))) {
            return true;
        }
    }
    return false;
}

static const struct config_key *
find_environment(struct slice name)
{
    for (size_t i = 0; i < config_schema_node.count; i++) {
        char text[CONFIG_KEY_NAME_MAX + 8];
        if (slice_equal(slice_of(config_key_environment(
                            &config_schema_node.keys[i], text)),
                        name)) {
            return &config_schema_node.keys[i];
        }
    }
    return NULL;
}

/* Flags that are short for a key. */
static const char *const shorts[][2] = {
    {"policy", "policy.name"}, {"placement-headers", "placement_headers"},
    {"mesh", "mesh.listen"},   {"join", "mesh.join"},
    {"data", "data.dir"},
};

#define SHORTS (sizeof shorts / sizeof shorts[0])

/* The key of a flag: by its name, or by a short one. NULL: none. */
static const struct config_key *
find_flag(const char *name)
{
    for (size_t i = 0; i < SHORTS; i++) {
        if (strcmp(name, shorts[i][0]) == 0) {
            name = shorts[i][1];
        }
    }
    return config_schema_find(&config_schema_node, slice_of(name));
}

/* A variable that is called as a flag is, and means nothing. */
static const char *
meant_by(struct slice name, char text[CONFIG_KEY_NAME_MAX + 8])
{
    for (size_t i = 0; i < SHORTS; i++) {
        if (slice_equal_nocase(name, slice_of(shorts[i][0]))) {
            return config_key_environment(find_flag(shorts[i][0]), text);
        }
    }
    return slice_equal(name, SLICE("WORKER")) ? "KVASIR_WORKERS" : NULL;
}

static void
apply_variable(struct config *config, struct slice name, const char *value,
               struct config_errors *errors)
{
    const struct config_key *key = find_environment(name);
    char source[CONFIG_KEY_NAME_MAX + 8];
    struct config_place place = {.source = source};
    struct slice rest = {name.ptr + 7, name.len - 7};
    char meant[CONFIG_KEY_NAME_MAX + 8];

    CHECK(name.len >= 7); /* KVASIR_ */
    (void)snprintf(source, sizeof source, "%.*s", (int)name.len, name.ptr);
    if (value[0] == '\0') {
        return;
    }
    if (key != NULL) {
        config_apply_value(key, slice_of(value), &place, config, errors);
    } else if (slice_equal(rest, SLICE("WORKERS"))) {
        apply_worker_list(config, value, &place, errors);
    } else if (meant_by(rest, meant) != NULL) {
        config_error(errors, &place, "no key has this name, did you mean %s?",
                     meant_by(rest, meant));
    } else if (is_ours(rest)) {
        config_error(errors, &place, "no key has this name");
    }
}

void
config_apply_environment(struct config *config, char *const *environment,
                         struct config_errors *errors)
{
    for (size_t i = 0; environment[i] != NULL; i++) {
        const char *equals = strchr(environment[i], '=');
        struct slice name = {environment[i], 0};
        if (equals != NULL && strncmp(environment[i], "KVASIR_", 7) == 0) {
            name.len = (size_t)(equals - environment[i]);
            apply_variable(config, name, equals + 1, errors);
        }
    }
}

static void
apply_flag(struct config *config, const struct config_flag *flag,
           struct config_errors *errors)
{
    char source[CONFIG_KEY_NAME_MAX + 2];
    struct config_place place = {.source = source};
    const struct config_key *key = find_flag(flag->key);
    struct config_worker worker;

    (void)snprintf(source, sizeof source, "--%s", flag->key);
    if (key != NULL && key->type == CONFIG_PLACES) {
        config_apply_place(key, slice_of(flag->value), &place,
                           &config->mesh.join, errors);
    } else if (key != NULL) {
        config_apply_value(key, slice_of(flag->value), &place, config, errors);
    } else if (strcmp(flag->key, "worker") != 0) {
        config_error(errors, &place, "no key has this name");
    } else if (config_parse_worker(slice_of(flag->value), source, &worker,
                                   errors) == 0) {
        config_apply_worker(config, &worker, &place, errors);
    }
}

void
config_apply_flags(struct config *config, const struct config_flag *flags,
                   size_t count, struct config_errors *errors)
{
    for (size_t i = 0; i < count; i++) {
        const struct config_key *key = find_flag(flags[i].key);
        if (strcmp(flags[i].key, "worker") == 0) {
            config_apply_no_workers(config);
        } else if (key != NULL && key->type == CONFIG_PLACES) {
            config->mesh.join.count = 0;
        }
    }
    for (size_t i = 0; i < count; i++) {
        apply_flag(config, &flags[i], errors);
    }
}

/* Keys of which the first must not be over the second. */
static const char *const ordered_keys[][2] = {
    {"limits.target_bytes_max", "limits.head_bytes_max"},
    {"health.timeout", "health.interval"},
    {"breaker.open", "breaker.open_max"},
    {"scale.min", "scale.max"},
    {"scale.max", "workers.slots"},
};

static void
check_order(const struct config *config, const char *low_name,
            const char *high_name, struct config_errors *errors)
{
    const struct config_key *low =
        config_schema_find(&config_schema_node, slice_of(low_name));
    const struct config_key *high =
        config_schema_find(&config_schema_node, slice_of(high_name));
    struct buf text;

    CHECK(low != NULL && high != NULL);
    if (config_value_number(low, config) <= config_value_number(high, config)) {
        return;
    }
    buf_init(&text, 256);
    config_value_print(low, config, &text);
    buf_printf(&text, " is over %s, ", high_name);
    config_value_print(high, config, &text);
    config_fault(errors, low_name, "%.*s", (int)text.len, text.ptr);
    buf_fini(&text);
}

/* What one request takes: a buffer, a power of two, and at the moment in which
 * it grows the one of half the size. See node/edge/lane_memory.c. */
static uint64_t
room_of_one(const struct config_limits *limits)
{
    uint64_t room = 4096;

    while (room < limits->head_bytes_max + limits->body_bytes_max) {
        room *= 2;
    }
    return room + room / 2;
}

static void
check_room(const struct config *config, const char *name, uint64_t bytes,
           struct config_errors *errors)
{
    uint64_t room = room_of_one(&config->limits);

    if (bytes < room) {
        config_fault(errors, name,
                     "has no room for one body of limits.body_bytes_max: "
                     "expected %" PRIu64 "KiB or more, or a smaller body",
                     room / 1024);
    }
}

static void
check_slots(const struct config *config, struct config_errors *errors)
{
    if (config->workers_count > config->workers_slots) {
        config_fault(errors, "workers.slots", "%u are too few for %u workers",
                     config->workers_slots, config->workers_count);
    }
}

void
config_check(const struct config *config, struct config_errors *errors)
{
    const struct config_limits *limits = &config->limits;

    check_room(config, "limits.buffered_bytes_max", limits->buffered_bytes_max,
               errors);
    if (limits->client_bytes_max != 0) {
        check_room(config, "limits.client_bytes_max", limits->client_bytes_max,
                   errors);
    }
    for (size_t i = 0; i < sizeof ordered_keys / sizeof ordered_keys[0]; i++) {
        check_order(config, ordered_keys[i][0], ordered_keys[i][1], errors);
    }
    check_slots(config, errors);
    config_aliases_check(&config->aliases, errors);
    config_access_check(config, errors);
    config_jwt_check(config, errors);
    config_mesh_check(&config->mesh, errors);
    config_redis_check(&config->answer_cache, errors);
    config_scale_check(config, errors);
}

/* 0 and *file, E_IRREGULAR, or -errno. */
static int
open_regular(const char *path, FILE **file)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    int rc = 0;

    *file = NULL;
    if (fd < 0 || fstat(fd, &about) != 0) {
        rc = -errno;
    } else if (!S_ISREG(about.st_mode)) {
        rc = E_IRREGULAR;
    } else {
        *file = fdopen(fd, "r");
        rc = *file == NULL ? -errno : 0;
    }
    if (rc != 0 && fd >= 0) {
        (void)close(fd);
    }
    return rc;
}

/* 0 or -errno. */
static int
read_all(FILE *file, struct buf *bytes)
{
    int rc = 0;

    while (!feof(file) && bytes->len < bytes->max_bytes) {
        size_t want = bytes->max_bytes - bytes->len;
        want = want < 65536 ? want : 65536;
        char *room = buf_reserve(bytes, want);
        if (room == NULL) {
            rc = -ENOMEM;
            break;
        }
        bytes->len += fread(room, 1, want, file);
        if (ferror(file)) {
            rc = errno != 0 ? -errno : -EIO;
            break;
        }
    }
    return rc;
}

bool
config_read_regular(const char *path, struct buf *bytes,
                    struct config_errors *errors)
{
    char text[128];
    FILE *file;
    int rc = open_regular(path, &file);

    if (rc == 0) {
        rc = read_all(file, bytes);
        (void)fclose(file);
    }
    if (rc > 0) {
        config_fault(errors, path, "is no regular file");
    } else if (rc < 0) {
        config_fault(errors, path, "cannot be read: %s",
                     uv_strerror_r(rc, text, sizeof text));
    }
    return rc == 0;
}

/* It may be a pipe: `-c <(command)`. */
static int
read_file(const char *path, struct buf *bytes)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");

    if (file == NULL) {
        return -errno;
    }
    int rc = read_all(file, bytes);
    if (!is_stdin) {
        (void)fclose(file);
    }
    return rc;
}

static void
apply_file(struct config *config, const char *path,
           struct config_errors *errors)
{
    struct config_place place = {.source =
                                     strcmp(path, "-") == 0 ? "stdin" : path};
    struct buf bytes;
    char text[128];

    buf_init(&bytes, CONFIG_FILE_BYTES_MAX + 1);
    int rc = read_file(path, &bytes);
    if (rc != 0) {
        config_error(errors, &place, "cannot be read: %s",
                     uv_strerror_r(rc, text, sizeof text));
    } else {
        config_apply_yaml(config, place.source, buf_slice(&bytes), errors);
    }
    buf_fini(&bytes);
}

/* The host's name; "node" when it has none that is a label. */
static void
name_by_host(char name[CONFIG_LABEL_MAX])
{
    const struct config_key *key =
        config_schema_find(&config_schema_node, SLICE("name"));
    struct config parsed;

    if (gethostname(name, CONFIG_LABEL_MAX) != 0) {
        name[0] = '\0';
    }
    name[CONFIG_LABEL_MAX - 1] = '\0';
    CHECK(key != NULL);
    if (!config_value_set(key, slice_of(name), &parsed)) {
        memcpy(name, "node", 5);
    }
}

static uint32_t
lanes_by_cpus(void)
{
    unsigned cpus = uv_available_parallelism();

    return cpus < CONFIG_LANES_MAX ? cpus : CONFIG_LANES_MAX;
}

void
config_complete_events(struct config *config)
{
    struct config_events *events = &config->events;
    const struct config_tls *tls = &config->tls;

    memcpy(events->nats_ca_file, tls->workers_ca_file, CONFIG_FILE_MAX);
    memcpy(events->nats_cert_file, tls->workers_cert_file, CONFIG_FILE_MAX);
    memcpy(events->nats_key_file, tls->workers_key_file, CONFIG_FILE_MAX);
}

int
config_load(const struct config_sources *sources, struct config *config,
            struct config_errors *errors)
{
    config_init(config);
    if (sources->file != NULL) {
        apply_file(config, sources->file, errors);
    }
    if (sources->environment != NULL) {
        config_apply_environment(config, sources->environment, errors);
    }
    config_apply_flags(config, sources->flags, sources->flags_count, errors);
    config_mesh_complete(&config->mesh);
    config_complete_events(config);
    config->mesh.listen_later = sources->shared;
    if (errors->count == 0) {
        config_check(config, errors);
    }
    if (errors->count == 0) {
        config_mesh_files(&config->mesh, errors);
        config_redis_files(&config->answer_cache, errors);
        config_access_files(config, errors);
        config_keys_check(config, errors);
        config_content_check(config, errors);
        config_jwt_files(config, errors);
    }
    if (errors->count != 0) {
        config_fini(config);
        config_init(config);
        return CONFIG_E_INVALID;
    }
    if (config->name[0] == '\0') {
        name_by_host(config->name);
    }
    if (config->lanes == 0) {
        config->lanes = lanes_by_cpus();
    }
    return 0;
}
