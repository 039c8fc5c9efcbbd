/* The kernels of tokenizer_words_internal.h for any processor and for every
 * x86-64, and the choice among all of them. */
#include "node/tokenizer/tokenizer_words_internal.h"

static bool
always(void)
{
    return true;
}

/* Without vectors the scanner finds each word. */
static void
run_portable(struct tokenizer_scratch *s, struct slice text, tok_scan *scan)
{
    for (size_t at = 0; at < text.len && s->fault == TOKENIZER_OK;) {
        size_t end = scan(s->tokenizer->classes, text, at);
        cache_word(s, (struct slice){.ptr = text.ptr + at, .len = end - at});
        at = end;
    }
}

const struct words_kernel words_kernel_portable = {
    .name = "portable", .usable = always, .run = run_portable};

#ifdef __x86_64__
#include <emmintrin.h>

#define WORDS_TARGET
#define PART 16

typedef __m128i part;

static inline part
load_part(const char *bytes)
{
    return _mm_loadu_si128((const void *)bytes);
}

static inline uint64_t
bytes_in(part bytes, unsigned low, unsigned count)
{
    return tok_bytes_in(bytes, low, count);
}

static inline uint64_t
bytes_of(part bytes, unsigned byte)
{
    return (unsigned)_mm_movemask_epi8(
        _mm_cmpeq_epi8(bytes, _mm_set1_epi8((char)byte)));
}

#include "node/tokenizer/tokenizer_blocks_internal.h"

const struct words_kernel words_kernel_sse2 = {
    .name = "sse2", .usable = always, .run = run};

#endif

const struct words_kernel *
words_kernel_nth(unsigned i)
{
    static const struct words_kernel *const kernels[] = {
#ifdef __x86_64__
        &words_kernel_avx512,
        &words_kernel_avx2,
        &words_kernel_sse2,
#endif
        &words_kernel_portable,
    };

    return i < sizeof kernels / sizeof kernels[0] ? kernels[i] : NULL;
}

const struct words_kernel *
words_kernel_best(void)
{
    const struct words_kernel *kernel = words_kernel_nth(0);

    for (unsigned i = 1; !kernel->usable(); i++) {
        kernel = words_kernel_nth(i);
    }
    return kernel;
}
