/* Any bytes as a template and, behind a NUL, a context: no crash, within the
 * bounds, and twice the same. */
#include "node/template/template.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct template_limits limits = {
    .steps_max = 50000,
    .memory_bytes = 4 << 20,
    .output_bytes = 1 << 16,
    .depth_max = 200,
};
static const struct template_clock noon = {
    .year = 2026, .month = 11, .day = 22, .hour = 12, .yearday = 325};

static void
render(const struct template *compiled, const struct json_value *context)
{
    struct template_error errors[2];
    struct buf texts[2];
    bool fine[2];

    for (int i = 0; i < 2; i++) {
        buf_init(&texts[i], (size_t)8 << 20);
        fine[i] = template_render(compiled, context, &limits, &noon, &texts[i],
                                  &errors[i]);
        CHECK(texts[i].len <= limits.output_bytes);
        CHECK(fine[i] || (texts[i].len == 0 && errors[i].text[0] != '\0'));
    }
    CHECK(fine[0] == fine[1]);
    CHECK(slice_equal(buf_slice(&texts[0]), buf_slice(&texts[1])));
    buf_fini(&texts[0]);
    buf_fini(&texts[1]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest = {(const char *)data, size};
    struct slice source = slice_take(&rest, '\0');
    struct template_error error;
    struct template *compiled = template_compile(source, &error);
    struct json_tree_fault fault;
    struct json_value context;
    struct arena arena;

    if (compiled == NULL) {
        CHECK(error.text[0] != '\0');
        return 0;
    }
    arena_init(&arena, (size_t)16 << 20);
    if (rest.len == 0) {
        rest =
            SLICE("{\"messages\":[{\"role\":\"user\",\"content\":\"a \\u00e9"
                  "\"},{\"role\":\"assistant\",\"tool_calls\":[{\"function\":"
                  "{\"name\":\"f\",\"arguments\":{\"x\":[1,2.5,null]}}}]}],"
                  "\"s\":\"Hello\",\"n\":5,\"l\":[3,1,2],\"d\":{\"b\":1}}");
    }
    if (json_tree_read(rest, &arena, &context, &fault) &&
        context.kind == JSON_OBJECT) {
        render(compiled, &context);
    }
    arena_fini(&arena);
    template_free(compiled);
    return 0;
}
