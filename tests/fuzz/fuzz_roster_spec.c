/* Any spec of any peer: no crash, and a worker that was accepted is the same
 * worker once more. The first byte says whether keys are taken, the id is up to
 * the first NUL. */
#include "node/fleet/roster_spec_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
read_back(const struct config_worker *worker, struct config_errors *errors)
{
    struct config_worker again;
    struct buf first;
    struct buf second;

    buf_init(&first, ROSTER_SPEC_MAX);
    buf_init(&second, ROSTER_SPEC_MAX);
    roster_spec_put(worker, true, &first);
    CHECK(!first.failed);
    CHECK(roster_spec_get(worker->id, buf_slice(&first), true, &again,
                          errors) == 0);
    roster_spec_put(&again, true, &second);
    CHECK(slice_equal(buf_slice(&first), buf_slice(&second)));
    buf_fini(&first);
    buf_fini(&second);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char id[ROSTER_ID_MAX] = "w";
    struct config_worker worker;
    struct config_errors errors;

    if (size < 2) {
        return 0;
    }
    bool secrets = data[0] % 2 != 0;
    struct slice spec = {(const char *)data + 1, size - 1};
    const char *end = memchr(spec.ptr, 0, spec.len);
    if (end != NULL && (size_t)(end - spec.ptr) < sizeof id) {
        size_t len = (size_t)(end - spec.ptr);
        memcpy(id, spec.ptr, len + 1);
        spec.ptr += len + 1;
        spec.len -= len + 1;
    }
    config_errors_init(&errors);
    if (roster_spec_get(id, spec, secrets, &worker, &errors) == 0) {
        CHECK(secrets || worker.api_key[0] == '\0');
        read_back(&worker, &errors);
    } else {
        CHECK(errors.count != 0);
    }
    config_errors_fini(&errors);
    return 0;
}
