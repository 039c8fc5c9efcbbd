/* The kernel of tokenizer_words for x86-64 with AVX2: a block is two vectors. */
#ifdef __x86_64__

#include <immintrin.h>
#include <stdint.h>

#define WORDS_TARGET __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define PART         32

typedef __m256i part;

WORDS_TARGET static inline part
load_part(const char *bytes)
{
    return _mm256_loadu_si256((const void *)bytes);
}

/* Compared as signed: `low` moves down to the least there is. */
WORDS_TARGET static inline uint64_t
bytes_in(part bytes, unsigned low, unsigned count)
{
    part moved = _mm256_sub_epi8(bytes, _mm256_set1_epi8((char)(low - 128)));

    return (unsigned)_mm256_movemask_epi8(
        _mm256_cmpgt_epi8(_mm256_set1_epi8((char)(count - 128)), moved));
}

WORDS_TARGET static inline uint64_t
bytes_of(part bytes, unsigned byte)
{
    return (unsigned)_mm256_movemask_epi8(
        _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8((char)byte)));
}

#include "node/tokenizer/tokenizer_blocks_internal.h"

static bool
usable(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
}

const struct words_kernel words_kernel_avx2 = {
    .name = "avx2", .usable = usable, .run = run};

#endif
