/*
 * Tokenizes many texts in one process, for tokenizer.py (speed) and for the
 * oracle test_tokenizer.py (ids).
 *
 *   tokenize_many FILE PATTERN ids|decode|cuts|ROUNDS < TEXTS
 *
 * TEXTS are a length as 4 bytes, little end first, and so many bytes, again and
 * again. `ids` prints, for each text, its ids on one line, first with special
 * tokens and then without; `decode` the text of its ids as a length and bytes;
 * `cuts` checks that each text, cut where tokenizer_cut() says, has the same
 * ids. A number: encodes all texts so often, and prints the CPU seconds of the
 * first round, the least of a round, its ids, and the bytes that the tokenizer
 * holds. PATTERN is "" for a tokenizer.json.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "node/tokenizer/tokenizer.h"

struct bench {
    struct tokenizer *tokenizer;
    struct tokenizer_scratch *scratch;
    struct tokenizer_ids ids;
    struct slice *texts;
    size_t count;
};

static void
fail(const char *why)
{
    (void)fprintf(stderr, "tokenize_many: %s\n", why);
    exit(2);
}

static struct buf
read_all(FILE *from)
{
    struct buf bytes;

    buf_init(&bytes, (size_t)1 << 31);
    while (from != NULL && !feof(from)) {
        char *room = buf_reserve(&bytes, 1 << 20);
        if (room == NULL) {
            fail("too large");
        }
        bytes.len += fread(room, 1, 1 << 20, from);
    }
    return bytes;
}

static void
split(struct bench *bench, struct slice all)
{
    while (all.len >= 4) {
        uint32_t len = 0;
        memcpy(&len, all.ptr, 4);
        if (len > all.len - 4) {
            fail("a text is cut off");
        }
        bench->texts =
            realloc(bench->texts, (bench->count + 1) * sizeof bench->texts[0]);
        if (bench->texts == NULL) {
            fail("out of memory");
        }
        bench->texts[bench->count++] = (struct slice){all.ptr + 4, len};
        all.ptr += 4 + len;
        all.len -= 4 + len;
    }
}

static void
encode(struct bench *bench, struct slice text, unsigned flags)
{
    int outcome = tokenizer_encode(bench->scratch, text, flags, &bench->ids);

    if (outcome != TOKENIZER_OK) {
        (void)printf("outcome %d ", outcome);
    }
}

static void
print_ids(struct bench *bench)
{
    for (size_t i = 0; i < bench->count; i++) {
        for (unsigned special = 2; special-- > 0;) {
            bench->ids.count = 0;
            encode(bench, bench->texts[i],
                   TOKENIZER_TRUNCATE | (special ? TOKENIZER_SPECIAL : 0));
            for (size_t k = 0; k < bench->ids.count; k++) {
                (void)printf("%" PRIu32 " ", bench->ids.ptr[k]);
            }
            (void)printf("\n");
        }
    }
}

static void
print_decoded(struct bench *bench)
{
    for (size_t i = 0; i < bench->count; i++) {
        struct buf out;
        buf_init(&out, (size_t)1 << 30);
        bench->ids.count = 0;
        encode(bench, bench->texts[i], TOKENIZER_SPECIAL);
        if (!tokenizer_decode(bench->tokenizer, bench->ids.ptr,
                              bench->ids.count, true, &out)) {
            fail("decode");
        }
        uint32_t len = (uint32_t)out.len;
        (void)fwrite(&len, 4, 1, stdout);
        (void)fwrite(out.ptr, 1, out.len, stdout);
        buf_fini(&out);
    }
}

static void
check_cuts(struct bench *bench)
{
    size_t cuts = 0;

    for (size_t i = 0; i < bench->count; i++) {
        struct slice text = bench->texts[i];
        for (size_t limit = text.len; limit > 0; limit = limit * 2 / 3) {
            size_t cut = tokenizer_cut(bench->tokenizer, text, limit);
            struct tokenizer_ids whole = {.max = (size_t)1 << 28};
            cuts += cut > 0 && cut < text.len;
            bench->ids.count = 0;
            encode(bench, (struct slice){text.ptr, cut}, 0);
            encode(bench, (struct slice){text.ptr + cut, text.len - cut},
                   cut > 0 ? TOKENIZER_CONTINUES : 0);
            if (tokenizer_encode(bench->scratch, text, 0, &whole) !=
                    TOKENIZER_OK ||
                whole.count != bench->ids.count ||
                (whole.count > 0 &&
                 memcmp(whole.ptr, bench->ids.ptr,
                        whole.count * sizeof whole.ptr[0]) != 0)) {
                (void)printf("text %zu differs when cut at %zu\n", i, cut);
                exit(1);
            }
            tokenizer_ids_fini(&whole);
        }
    }
    (void)printf("%zu cuts\n", cuts);
}

static double
cpu_seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void
measure(struct bench *bench, unsigned long rounds)
{
    double least = 1e9;
    double first = 0;
    size_t ids = 0;

    for (unsigned long round = 0; round < rounds; round++) {
        double start = cpu_seconds();
        ids = 0;
        for (size_t i = 0; i < bench->count; i++) {
            bench->ids.count = 0;
            encode(bench, bench->texts[i], 0);
            ids += bench->ids.count;
        }
        double took = cpu_seconds() - start;
        first = round == 0 ? took : first;
        least = took < least ? took : least;
    }
    (void)printf("%.9f %.9f %zu %zu\n", first, least, ids,
                 tokenizer_bytes(bench->tokenizer));
}

int
main(int argc, char *argv[])
{
    struct bench bench = {.ids = {.max = (size_t)1 << 28}};
    char why[TOKENIZER_WHY_MAX] = "";

    if (argc != 4) {
        fail("usage: FILE PATTERN ids|decode|cuts|ROUNDS");
    }
    FILE *file = fopen(argv[1], "re");
    struct buf bytes = read_all(file);
    double start = cpu_seconds();
    bench.tokenizer = argv[2][0] == '\0' ? tokenizer_new(buf_slice(&bytes), why)
                                         : tokenizer_new_tiktoken(
                                               buf_slice(&bytes),
                                               slice_of(argv[2]), NULL, 0, why);
    if (bench.tokenizer == NULL) {
        fail(why);
    }
    (void)fprintf(stderr, "loaded in %.3f s\n", cpu_seconds() - start);
    bench.scratch = tokenizer_scratch_new(bench.tokenizer);
    struct buf input = read_all(stdin);
    split(&bench, buf_slice(&input));
    if (strcmp(argv[3], "ids") == 0) {
        print_ids(&bench);
    } else if (strcmp(argv[3], "decode") == 0) {
        print_decoded(&bench);
    } else if (strcmp(argv[3], "cuts") == 0) {
        check_cuts(&bench);
    } else {
        measure(&bench, strtoul(argv[3], NULL, 10));
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    free(bench.texts);
    buf_fini(&bytes);
    buf_fini(&input);
    tokenizer_ids_fini(&bench.ids);
    tokenizer_scratch_free(bench.scratch);
    tokenizer_free(bench.tokenizer);
    return 0;
}
