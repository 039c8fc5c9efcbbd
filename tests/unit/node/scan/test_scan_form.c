#include <criterion/criterion.h>

#include "node/scan/scan_form.h"

#define NAME(name) "Content-Disposition: form-data; name=\"" name "\"\r\n\r\n"
#define FILE_PART                                                             \
    "--b0\r\nContent-Disposition: form-data; name=\"file\"; "                 \
    "filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nname=\"model\"\r\n" \
    "\r\nRIFF\0\r\n-b0\r\n"

#define EXPECT(body, model)                                         \
    do {                                                            \
        struct slice found = scan_form_model(SLICE(body));          \
        cr_assert(slice_equal(found, SLICE(model)), "\"%.*s\"",     \
                  (int)found.len, found.len != 0 ? found.ptr : ""); \
    } while (0)

Test(node_scan_form, the_field_is_found_wherever_it_stands)
{
    EXPECT("--b0\r\n" NAME("model") "whisper-1\r\n--b0--\r\n", "whisper-1");
    EXPECT(FILE_PART "--b0\r\n" NAME("model") "whisper-1\r\n--b0--\r\n",
           "whisper-1");
    EXPECT("--b0\r\ncontent-disposition:form-data;NAME=model\r\n\r\nm\r\n--b0",
           "m");
}

Test(node_scan_form, what_names_no_model_has_none)
{
    EXPECT("", "");
    EXPECT("{\"model\":\"m\"}", "");
    EXPECT("--\r\n" NAME("model") "m\r\n--\r\n", "");
    EXPECT(FILE_PART "--b0--\r\n", "");
    EXPECT("--b0\r\n" NAME("model") "cut off", "");
    EXPECT("--b0\r\n" NAME("models") "m\r\n--b0--\r\n", "");
    EXPECT("--b0\r\nX: y; name=\"model\"\r\n\r\nm\r\n--b0--\r\n", "");
}
