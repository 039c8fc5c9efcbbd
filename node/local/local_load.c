/* Models' folders, found and read. */
#include "node/local/local_load.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "index/base/buf.h"
#include "node/base/file.h"
#include "node/template/template.h"
#include "node/tokenizer/tokenizer.h"

#define CONFIG_MAX  ((size_t)32 << 20)
#define ENTRIES_MAX 4096U /* of one folder */

/* Files of one model. */
struct files {
    struct buf json;
    struct buf ranks;
    struct buf config;
    struct buf template;
    char unread[LOCAL_NAME_MAX]; /* the one that is there but gives nothing */
};

static void
init_files(struct files *files)
{
    buf_init(&files->json, TOKENIZER_FILE_MAX + 65536);
    buf_init(&files->ranks, TOKENIZER_FILE_MAX + 65536);
    buf_init(&files->config, CONFIG_MAX);
    buf_init(&files->template, TEMPLATE_SOURCE_MAX + 65536);
    files->unread[0] = '\0';
}

static void
fini_files(struct files *files)
{
    buf_fini(&files->json);
    buf_fini(&files->ranks);
    buf_fini(&files->config);
    buf_fini(&files->template);
}

/* FOLDER/NAME; false: too long. */
static bool
join(char out[LOCAL_PATH_MAX], const char *folder, const char *name)
{
    int n = snprintf(out, LOCAL_PATH_MAX, "%s/%s", folder, name);

    return n > 0 && n < LOCAL_PATH_MAX;
}

/* False: it is there, but cannot be read, is empty or too large. */
static bool
read_path(const char *path, struct buf *to)
{
    FILE *file = fopen(path, "re");
    bool there = file != NULL || (errno != ENOENT && errno != ENOTDIR);

    if (file != NULL) {
        if (file_read_all(file, to) != 0) {
            buf_clear(to);
        }
        (void)fclose(file);
    }
    return !there || to->len != 0;
}

/* One of a folder's, which need not be there. */
static void
read_file(const char *folder, const char *name, struct files *files,
          struct buf *to)
{
    char path[LOCAL_PATH_MAX];

    if (join(path, folder, name) && !read_path(path, to)) {
        (void)snprintf(files->unread, sizeof files->unread, "%s", name);
    }
}

static bool
has_file(const char *folder, const char *name)
{
    char path[LOCAL_PATH_MAX];
    struct stat about;

    return join(path, folder, name) && stat(path, &about) == 0 &&
           S_ISREG(about.st_mode);
}

static bool
is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static int
compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names in a folder, sorted; the caller frees each, and the list. */
struct entries {
    char **at;
    size_t count;
};

static void
free_entries(struct entries *names)
{
    for (size_t i = 0; i < names->count; i++) {
        free(names->at[i]);
    }
    free(names->at);
    *names = (struct entries){.at = NULL};
}

static int
list(const char *path, struct entries *out)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    *out = (struct entries){.at = calloc(ENTRIES_MAX, sizeof *out->at)};
    if (dir == NULL || out->at == NULL) {
        int error = dir == NULL ? -errno : -ENOMEM;
        free(out->at);
        out->at = NULL;
        if (dir != NULL) {
            (void)closedir(dir);
        }
        return error;
    }
    while ((entry = readdir(dir)) != NULL && out->count < ENTRIES_MAX) {
        char *name = entry->d_name[0] != '.' ? strdup(entry->d_name) : NULL;
        if (name != NULL) {
            out->at[out->count++] = name;
        }
    }
    (void)closedir(dir);
    if (out->count != 0) {
        qsort(out->at, out->count, sizeof *out->at, compare);
    }
    return 0;
}

/* A folder's .tiktoken file, whose name says its pattern; "" without one. */
static void
find_ranks(const char *folder, char name[LOCAL_NAME_MAX])
{
    struct entries names;

    name[0] = '\0';
    if (list(folder, &names) != 0) {
        return;
    }
    for (size_t i = 0; i < names.count; i++) {
        size_t len = strlen(names.at[i]);
        if (len > 9 && len < LOCAL_NAME_MAX &&
            strcmp(names.at[i] + len - 9, ".tiktoken") == 0) {
            memcpy(name, names.at[i], len + 1);
        }
    }
    free_entries(&names);
}

static bool
is_model(const char *folder)
{
    char ranks[LOCAL_NAME_MAX];

    if (has_file(folder, "tokenizer.json") ||
        has_file(folder, "tokenizer_config.json")) {
        return true;
    }
    find_ranks(folder, ranks);
    return ranks[0] != '\0';
}

/* What one loading works on. */
struct loading {
    const struct local_table *before;
    struct local_table *table;
};

static bool
is_named(const struct local_table *table, struct slice name)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (slice_equal(slice_of(local_model_name(table->model[i])), name)) {
            return true;
        }
    }
    return false;
}

/* The first of a name counts. 0, or -ENOMEM. */
static int
add(struct loading *l, const struct local_parts *parts)
{
    struct local_model *model;

    if (is_named(l->table, parts->name)) {
        return 0;
    }
    if (l->table->count == LOCAL_MODELS_MAX) {
        l->table->left_off++;
        return 0;
    }
    model = local_table_same(l->before, parts->name, local_parts_digest(parts));
    if (model == NULL) {
        model = local_model_new(parts);
    }
    if (model == NULL) {
        return -ENOMEM;
    }
    l->table->model[l->table->count++] = model;
    return 0;
}

static bool
ends_in(const char *name, const char *end)
{
    size_t len = strlen(name);
    size_t tail = strlen(end);

    return len > tail && strcmp(name + len - tail, end) == 0;
}

/* The tokenizer's file: by that name, or else as folders have it. ranks: the
 * name of its pattern, for a .tiktoken file. */
static void
read_tokenizer(const char *folder, const char *file, struct files *files,
               char ranks[LOCAL_NAME_MAX])
{
    ranks[0] = '\0';
    if (file[0] == '\0') {
        read_file(folder, "tokenizer.json", files, &files->json);
    } else if (!ends_in(file, ".tiktoken")) {
        read_file(folder, file, files, &files->json);
    } else if (strlen(file) < LOCAL_NAME_MAX) {
        memcpy(ranks, file, strlen(file) + 1);
    }
    if (file[0] == '\0' && files->json.len == 0) {
        find_ranks(folder, ranks);
    }
    if (ranks[0] != '\0') {
        read_file(folder, ranks, files, &files->ranks);
        ranks[strlen(ranks) - 9] = '\0';
    }
}

/* One folder under a name; with what a configuration says of it, or NULL. */
static int
add_folder_as(struct loading *l, const char *folder, const char *file,
              const char *name, const struct config_model *said)
{
    static const enum local_format formats[] = {
        [CONFIG_CONTENT_AUTO] = LOCAL_FORMAT_AUTO,
        [CONFIG_CONTENT_STRING] = LOCAL_FORMAT_STRING,
        [CONFIG_CONTENT_PARTS] = LOCAL_FORMAT_OPENAI,
    };
    struct slice unread = SLICE("");
    char ranks[LOCAL_NAME_MAX];
    struct files files;
    int error;

    CHECK(file[0] == '\0' || said != NULL);
    init_files(&files);
    read_tokenizer(folder, file, &files, ranks);
    read_file(folder, "tokenizer_config.json", &files, &files.config);
    if (said != NULL && said->template[0] != '\0') {
        if (!read_path(said->template, &files.template) ||
            files.template.len == 0) {
            unread = slice_of(said->template);
        }
    } else {
        read_file(folder, "chat_template.jinja", &files, &files.template);
    }
    if (file[0] != '\0' && files.json.len + files.ranks.len == 0) {
        unread = slice_of(said->path);
    }
    if (unread.len == 0) {
        unread = slice_of(files.unread);
    }
    error = add(l, &(struct local_parts){
                       .name = slice_of(name),
                       .place = slice_of(said != NULL ? said->path : folder),
                       .format = formats[said != NULL ? said->content : 0],
                       .json = buf_slice(&files.json),
                       .ranks = buf_slice(&files.ranks),
                       .pattern = slice_of(ranks),
                       .config = buf_slice(&files.config),
                       .template = buf_slice(&files.template),
                       .unread = unread,
                   });
    fini_files(&files);
    return error;
}

static int
add_folder(struct loading *l, const char *folder, const char *name)
{
    return add_folder_as(l, folder, "", name, NULL);
}

/* A model of the configuration: a folder, or a file in one. */
static int
add_said(struct loading *l, const struct config_model *said)
{
    const char *slash = strrchr(said->path, '/');
    char folder[CONFIG_FILE_MAX] = ".";

    if (is_folder(said->path)) {
        return add_folder_as(l, said->path, "", said->name, said);
    }
    if (slash != NULL) {
        size_t len = slash != said->path ? (size_t)(slash - said->path) : 1;
        memcpy(folder, said->path, len);
        folder[len] = '\0';
    }
    return add_folder_as(l, folder, slash != NULL ? slash + 1 : said->path,
                         said->name, said);
}

/* "models--A--B" as "A/B"; false: no such name. */
static bool
hub_name(const char *folder, char out[LOCAL_NAME_MAX])
{
    const char *rest = folder + 8;
    size_t len = 0;

    if (strncmp(folder, "models--", 8) != 0) {
        return false;
    }
    for (; *rest != '\0' && len + 1 < LOCAL_NAME_MAX; rest++) {
        bool slash = rest[0] == '-' && rest[1] == '-';
        out[len++] = slash ? '/' : *rest;
        rest += slash;
    }
    out[len] = '\0';
    return len != 0;
}

/* The snapshot that refs/main names, or else the last one. */
static int
add_hub(struct loading *l, const char *folder, const char *name)
{
    char snapshots[LOCAL_PATH_MAX];
    char path[LOCAL_PATH_MAX];
    struct buf hash;
    struct entries names;
    const char *chosen = NULL;
    int error = 0;

    buf_init(&hash, 65536);
    if (join(path, folder, "refs/main")) {
        (void)read_path(path, &hash);
    }
    if (!join(snapshots, folder, "snapshots") || list(snapshots, &names) != 0) {
        buf_fini(&hash);
        return 0;
    }
    for (size_t i = 0; i < names.count; i++) {
        struct slice main = slice_trim(buf_slice(&hash));
        bool is = slice_begins(main, slice_of(names.at[i]));
        if (is || i + 1 == names.count) {
            chosen = chosen == NULL ? names.at[i] : chosen;
        }
    }
    if (chosen != NULL && join(path, snapshots, chosen)) {
        error = add_folder(l, path, name);
    }
    free_entries(&names);
    buf_fini(&hash);
    return error;
}

/* One entry of a folder. */
struct entry {
    char path[LOCAL_PATH_MAX];
    char name[LOCAL_NAME_MAX]; /* of the model that it would be */
};

/* DIR/ENTRY under PREFIX/ENTRY. False: no folder, or too long a name. */
static bool
look_at(const char *dir, const char *prefix, const char *name,
        struct entry *entry)
{
    int n = snprintf(entry->name, sizeof entry->name, "%s%s%s", prefix,
                     prefix[0] != '\0' ? "/" : "", name);

    return n > 0 && n < LOCAL_NAME_MAX && join(entry->path, dir, name) &&
           is_folder(entry->path);
}

/* The models in an organisation's folder. */
static int
add_organisation(struct loading *l, const char *dir, const char *name)
{
    struct entries names;
    struct entry entry;
    int error = 0;

    if (list(dir, &names) != 0) {
        return 0;
    }
    for (size_t i = 0; error == 0 && i < names.count; i++) {
        if (look_at(dir, name, names.at[i], &entry) && is_model(entry.path)) {
            error = add_folder(l, entry.path, entry.name);
        }
    }
    free_entries(&names);
    return error;
}

/* The models in a folder, and in folders in it. */
static int
add_all(struct loading *l, const char *dir)
{
    struct entries names;
    struct entry entry;
    int error = list(dir, &names);

    for (size_t i = 0; error == 0 && i < names.count; i++) {
        if (!look_at(dir, "", names.at[i], &entry)) {
            continue;
        }
        if (is_model(entry.path)) {
            error = add_folder(l, entry.path, entry.name);
        } else if (hub_name(names.at[i], entry.name)) {
            error = add_hub(l, entry.path, entry.name);
        } else {
            error = add_organisation(l, entry.path, names.at[i]);
        }
    }
    free_entries(&names);
    return error;
}

static int
add_dir(struct loading *l, const char *dir)
{
    char folder[CONFIG_FILE_MAX];
    size_t len = strlen(dir);

    CHECK(len < sizeof folder);
    memcpy(folder, dir, len + 1);
    while (len > 1 && folder[len - 1] == '/') {
        folder[--len] = '\0';
    }
    const char *slash = strrchr(folder, '/');
    if (is_model(folder)) {
        return add_folder(l, folder, slash != NULL ? slash + 1 : folder);
    }
    return add_all(l, folder);
}

int
local_load(const struct config_tokens *config, const struct local_table *before,
           struct local_table **out)
{
    struct loading l = {.before = before, .table = calloc(1, sizeof *l.table)};
    int error = l.table != NULL ? 0 : -ENOMEM;

    *out = NULL;
    for (uint32_t i = 0; error == 0 && i < config->models.count; i++) {
        error = add_said(&l, &config->models.model[i]);
    }
    if (error == 0 && config->dir[0] != '\0') {
        error = add_dir(&l, config->dir);
        if (error != 0 && error != -ENOMEM && l.table->count != 0) {
            l.table->dir_error = error;
            error = 0;
        }
    }
    if (error < 0) {
        local_table_free(l.table, before);
        return error;
    }
    *out = l.table;
    return 0;
}

void
local_table_free(struct local_table *table, const struct local_table *but)
{
    for (uint32_t i = 0; table != NULL && i < table->count; i++) {
        if (!local_table_has(but, table->model[i])) {
            local_model_free(table->model[i]);
        }
    }
    free(table);
}
