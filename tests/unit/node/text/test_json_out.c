#include <criterion/criterion.h>

#include "node/text/json_out.h"

Test(node_json_out, writes_nested_documents_with_their_commas)
{
    struct buf buf;
    struct json_out json;

    buf_init(&buf, 4096);
    json_out_init(&json, &buf);
    json_out_object_begin(&json);
    json_out_put_uint(&json, "a", UINT64_MAX);
    json_out_key(&json, "b");
    json_out_array_begin(&json);
    json_out_uint(&json, 1);
    json_out_object_begin(&json);
    json_out_put_bool(&json, "t", true);
    json_out_put_milli(&json, "m", 1005);
    json_out_object_end(&json);
    json_out_null(&json);
    json_out_array_begin(&json);
    json_out_array_end(&json);
    json_out_array_end(&json);
    json_out_put_text(&json, "c", "x");
    json_out_object_end(&json);
    cr_assert(
        slice_equal(buf_slice(&buf),
                    SLICE("{\"a\":18446744073709551615,\"b\":[1,{\"t\":true,"
                          "\"m\":1.005},null,[]],\"c\":\"x\"}")),
        "%.*s", (int)buf.len, buf.ptr);
    buf_fini(&buf);
}

Test(node_json_out, any_bytes_become_valid_text)
{
    struct buf buf;
    struct json_out json;

    buf_init(&buf, 4096);
    json_out_init(&json, &buf);
    json_out_slice(&json, SLICE("q\"\\\n\x01\xff z"));
    cr_assert(slice_equal(buf_slice(&buf),
                          SLICE("\"q\\\"\\\\\\n\\u0001\xef\xbf\xbd z\"")),
              "%.*s", (int)buf.len, buf.ptr);
    buf_fini(&buf);
}
