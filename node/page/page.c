/* Finding a file of the page. */
#include "node/page/page.h"

const struct page_file *
page_find(struct slice path)
{
    for (size_t i = 0; i < page_files_count; i++) {
        if (slice_equal(page_files[i].path, path)) {
            return &page_files[i];
        }
    }
    return NULL;
}
