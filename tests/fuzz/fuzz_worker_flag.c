/* Any bytes after --worker: no crash, and a worker that was accepted prints
 * as YAML that gives the same worker. */
#include "node/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
print(const struct config_worker *worker, struct buf *out)
{
    struct config_worker copy = *worker;
    struct config config;

    config_init(&config);
    config.workers = &copy;
    config.workers_count = 1;
    config_print(&config, out);
    config.workers = NULL;
    config_fini(&config);
}

static void
read_back(const struct config_worker *worker, struct config_errors *errors)
{
    struct config config;
    struct buf first;
    struct buf second;

    buf_init(&first, 65536);
    buf_init(&second, 65536);
    print(worker, &first);
    config_init(&config);
    config_apply_yaml(&config, "f", buf_slice(&first), errors);
    CHECK(errors->count == 0 && config.workers_count == 1);
    print(&config.workers[0], &second);
    CHECK(slice_equal(buf_slice(&first), buf_slice(&second)));
    config_fini(&config);
    buf_fini(&first);
    buf_fini(&second);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = {(const char *)data, size};
    struct config_worker worker;
    struct config_errors errors;

    config_errors_init(&errors);
    if (config_parse_worker(text, "--worker", &worker, &errors) == 0) {
        read_back(&worker, &errors);
    } else {
        CHECK(errors.count != 0);
    }
    config_errors_fini(&errors);
    return 0;
}
