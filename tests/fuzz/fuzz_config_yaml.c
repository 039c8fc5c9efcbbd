/* Any bytes as a configuration file: no crash, bounded errors, and what was
 * accepted prints to a file that means the same. The same bytes as a file of
 * keys, whose reader stands on the same trees. */
#include "node/config/config.h"
#include "node/config/config_content.h"
#include "node/config/config_keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t
apply(struct slice yaml, struct buf *printed)
{
    struct config_errors errors;
    struct config config;

    config_init(&config);
    config_errors_init(&errors);
    config_apply_yaml(&config, "f", yaml, &errors);
    config_check(&config, &errors);
    uint32_t lines = 0;
    for (size_t i = 0; i < errors.text.len; i++) {
        unsigned char c = (unsigned char)errors.text.ptr[i];
        lines += c == '\n' ? 1 : 0;
        CHECK(c == '\n' || (c >= 0x20 && c != 0x7F));
    }
    CHECK(lines == errors.printed && lines <= CONFIG_ERRORS_MAX);
    uint32_t count = errors.count;
    config_print(&config, printed);
    config_errors_fini(&errors);
    config_fini(&config);
    return count;
}

static void
read_keys(struct slice yaml)
{
    struct config_errors errors;
    struct keys *keys;

    config_errors_init(&errors);
    int outcome = config_keys_read(yaml, "f", false, NULL, &keys, &errors);
    CHECK((outcome == 0) == (errors.count == 0));
    CHECK((outcome == 0) == (keys != NULL));
    keys_free(keys);
    config_errors_fini(&errors);
}

static void
read_content(struct slice yaml)
{
    struct config_errors errors;
    struct content *content;

    config_errors_init(&errors);
    int outcome = config_content_read(yaml, "f", &content, &errors);
    CHECK((outcome == 0) == (errors.count == 0));
    CHECK((outcome == 0) == (content != NULL));
    content_free(content);
    config_errors_fini(&errors);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice yaml = {(const char *)data, size};

    read_keys(yaml);
    read_content(yaml);
    struct buf first;
    struct buf second;

    buf_init(&first, 4 * CONFIG_FILE_BYTES_MAX);
    buf_init(&second, 4 * CONFIG_FILE_BYTES_MAX);
    uint32_t faults = apply(yaml, &first);
    if (faults == 0) {
        CHECK(apply(buf_slice(&first), &second) == 0);
        CHECK(slice_equal(buf_slice(&first), buf_slice(&second)));
    }
    buf_fini(&first);
    buf_fini(&second);
    return 0;
}
