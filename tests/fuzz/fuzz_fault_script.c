/* Any text: no crash, and a script that was read is the same script once it was
 * put and read again. */
#include <string.h>

#include "chaos/base/fault_script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
read_back(const struct fault_script *script)
{
    static struct fault_script again;
    struct fault_error error;
    struct buf out;

    buf_init(&out, 4 * FAULT_TEXT_MAX);
    fault_script_put(script, &out);
    CHECK(!out.failed);
    CHECK(fault_script_read(&again, buf_slice(&out), &error));
    CHECK(memcmp(script, &again, sizeof again) == 0);
    buf_fini(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fault_script script;
    struct fault_error error;
    struct slice text = {(const char *)data, size};

    if (fault_script_read(&script, text, &error)) {
        CHECK(script.events_count >= 1);
        CHECK(script.events_count <= FAULT_EVENTS_MAX);
        read_back(&script);
    } else {
        CHECK(error.what != NULL && error.line >= 1 && error.column >= 1);
        CHECK(error.column <= size + 1);
    }
    return 0;
}
