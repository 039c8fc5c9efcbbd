/*
 * Writes the tables of the unit tests as one file per row, to start a corpus
 * from:
 *   http_seeds DIR      DIR/request, DIR/response and DIR/chunk must exist
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/node/http/http_cases.h"
#include "tests/unit/node/http/http_chunk_cases.h"

/* first: the byte that some targets take off the front, or NULL. */
static void
write_seed(const char *dir, const char *kind, size_t number, const char *first,
           struct slice bytes)
{
    char path[4096];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s/%03zu", dir, kind, number);
    file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    if (first != NULL) {
        (void)fputc(*first, file);
    }
    (void)fwrite(bytes.ptr, 1, bytes.len, file);
    if (fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

int
main(int argc, char **argv)
{
    size_t number = 0;

    if (argc != 2) {
        (void)fprintf(stderr, "usage: http_seeds DIR\n");
        return 2;
    }
    for (size_t i = 0; i < HTTP_CASES_COUNT(http_request_cases); i++) {
        write_seed(argv[1], "request", i, NULL, http_request_cases[i].head);
    }
    for (size_t i = 0; i < HTTP_CASES_COUNT(http_response_cases); i++) {
        write_seed(argv[1], "response", number++, "G",
                   http_response_cases[i].head);
        write_seed(argv[1], "response", number++, "H",
                   http_response_cases[i].head);
    }
    for (size_t i = 0; i < HTTP_CASES_COUNT(http_chunk_goods); i++) {
        write_seed(argv[1], "chunk", number++, "\7", http_chunk_goods[i].body);
    }
    for (size_t i = 0; i < HTTP_CASES_COUNT(http_chunk_wrongs); i++) {
        write_seed(argv[1], "chunk", number++, "\7",
                   http_chunk_wrongs[i].bytes);
    }
    return 0;
}
