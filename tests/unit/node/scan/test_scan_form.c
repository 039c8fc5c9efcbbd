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

Test(node_scan_form, the_longest_boundary_is_one_and_a_longer_is_not)
{
#define TEN     "0123456789"
#define SEVENTY TEN TEN TEN TEN TEN TEN TEN
    EXPECT("--" SEVENTY "\r\n" NAME("model") "m\r\n--" SEVENTY "--", "m");
    EXPECT("--" SEVENTY "0\r\n" NAME("model") "m\r\n--" SEVENTY "0--", "");
    EXPECT("--" SEVENTY SEVENTY, "");
}

#define SOLE(type, body, model)                                              \
    do {                                                                     \
        struct slice found = scan_form_sole_model(SLICE(type), SLICE(body)); \
        cr_assert(slice_equal(found, SLICE(model)), "\"%.*s\"",              \
                  (int)found.len, found.len != 0 ? found.ptr : "");          \
    } while (0)
#define B0  "multipart/form-data; boundary=b0"
#define END "\r\n--b0--\r\n"

Test(node_scan_form, a_model_is_sole_where_all_readers_agree)
{
    SOLE(B0, "--b0\r\n" NAME("model") "m" END, "m");
    SOLE(B0, "--b0\r\n" NAME("model") "m\r\n--b0--", "m");
    SOLE("Multipart/Form-Data;boundary=\"b0\"",
         FILE_PART "--b0\r\n" NAME("model") "m" END, "m");
    SOLE(B0,
         "--b0\r\ncontent-type: text/plain\r\nContent-Disposition: form-data; "
         "name=\"model\"\r\n\r\nm" END,
         "m");
}

Test(node_scan_form, a_model_is_not_sole_where_readers_might_differ)
{
#define M          "--b0\r\n" NAME("model") "m"
#define ODD(lines) M "\r\n--b0\r\n" lines "\r\n\r\nn" END
    SOLE("multipart/form-data; boundary=b1", M END, "");
    SOLE("multipart/form-data; boundary=b0; charset=x", M END, "");
    SOLE("multipart/mixed; boundary=b0", M END, "");
    SOLE(B0, M "\r\n--b0\r\n" NAME("model") "n" END, "");
    SOLE(B0, M "\r\n--b0", "");
    SOLE(B0, M "\r\n--b0-- ", "");
    SOLE(B0, M END "--b0\r\n" NAME("model") "n" END, "");
    SOLE(B0, M "\r\n--b0 \r\n" NAME("x") "n" END, "");
    SOLE(B0, ODD("Content-Disposition: form-data; name=model"), "");
    SOLE(B0, ODD("Content-Disposition: form-data; name=\"mo\\del\""), "");
    SOLE(B0, ODD("Content-Disposition: form-data; name=\"mode%6c\""), "");
    SOLE(B0, ODD("Content-Disposition: form-data; name*=utf-8''model"), "");
    SOLE(B0, ODD("Content-Disposition: form-data; name=\"a\"; name=\"model\""),
         "");
    SOLE(B0, ODD("Content-Disposition:\r\n form-data; name=\"model\""), "");
    SOLE(B0, ODD("Content-Disposition : form-data; name=\"model\""), "");
    SOLE(B0,
         ODD("Content-Transfer-Encoding: base64\r\nContent-Disposition: "
             "form-data; name=\"x\""),
         "");
    SOLE(B0, ODD("X: y"), "");
    SOLE(B0, M "\r\n--b0\r\n" NAME("x") "\n--b0\n" NAME("model") "n" END, "");
    SOLE(B0, M "\r\n--b0\r\n" NAME("x") "--b0\r\n" NAME("model") "n" END, "");
    SOLE(B0,
         "--b0\r\nContent-Disposition: form-data; name=\"model\"; "
         "filename=\"a\"\r\n\r\nm" END,
         "");
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
