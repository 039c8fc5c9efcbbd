/* The kernel of tokenizer_words for x86-64 with AVX-512: a block is one vector,
 * and a comparison is a mask. On which processors: see node/scan/scan_avx512.c. */
#ifdef __x86_64__

#include <immintrin.h>
#include <stdint.h>

#define WORDS_TARGET       \
    __attribute__((target( \
        "avx2,avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2,lzcnt,popcnt")))
#define PART 64

typedef __m512i part;

WORDS_TARGET static inline part
load_part(const char *bytes)
{
    return _mm512_loadu_si512(bytes);
}

WORDS_TARGET static inline uint64_t
bytes_in(part bytes, unsigned low, unsigned count)
{
    return _mm512_cmplt_epu8_mask(
        _mm512_sub_epi8(bytes, _mm512_set1_epi8((char)low)),
        _mm512_set1_epi8((char)count));
}

WORDS_TARGET static inline uint64_t
bytes_of(part bytes, unsigned byte)
{
    return _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8((char)byte));
}

#include "node/tokenizer/tokenizer_blocks_internal.h"

static bool
usable(void)
{
    return __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2");
}

const struct words_kernel words_kernel_avx512 = {
    .name = "avx512", .usable = usable, .run = run};

#endif
