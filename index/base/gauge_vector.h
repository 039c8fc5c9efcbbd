/*
 * Four or eight gauges at once, for who reads hundreds of them.
 *
 * Compilers make four instructions of four atomic loads. Here it is one; each of
 * the four is read whole, because aligned 32 bits of a vector are on the machines
 * this is built for. Between them nothing is ordered, as with gauge_read().
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none. Errors: none.
 */
#ifndef INDEX_BASE_GAUGE_VECTOR_H
#define INDEX_BASE_GAUGE_VECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/counter.h"

typedef uint32_t gauge_four __attribute__((vector_size(16)));

/* The levels of four neighbours, the first of them at a boundary of 16 bytes;
 * one that is below zero for a moment reads as 0. */
static inline gauge_four
gauge_read_four(const struct gauge *first)
{
    typedef int32_t signed_four __attribute__((vector_size(16)));
    signed_four v;

    CHECK_SLOW((uintptr_t)first % sizeof(v) == 0);
#if defined(__x86_64__)
    __asm__ volatile("movdqa %1, %0"
                     : "=x"(v)
                     : "m"(*(const signed_four *)(const void *)first));
#else
    for (int i = 0; i < 4; i++) {
        v[i] = atomic_load_explicit(&first[i].value, memory_order_relaxed);
    }
#endif
    return (gauge_four)(v & (v > 0));
}

/* The thread sanitizer's builds are those that try the other way. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)

/* Who reads eight at once is compiled for it, and runs where the processor has
 * it: gauge_reads_eight(). */
#define GAUGE_EIGHT __attribute__((target("avx2")))

/* Whether this processor has it. */
static inline bool
gauge_reads_eight(void)
{
    return __builtin_cpu_supports("avx2");
}

typedef uint32_t gauge_eight __attribute__((vector_size(32)));

/* The levels of eight neighbours, the first of them at a boundary of 32 bytes,
 * likewise. */
GAUGE_EIGHT static inline gauge_eight
gauge_read_eight(const struct gauge *first)
{
    typedef int32_t signed_eight __attribute__((vector_size(32)));
    const signed_eight zero = {0};
    signed_eight v;

    CHECK_SLOW((uintptr_t)first % sizeof(v) == 0);
    __asm__ volatile("vpmaxsd %1, %2, %0"
                     : "=x"(v)
                     : "m"(*(const signed_eight *)(const void *)first),
                       "x"(zero));
    return (gauge_eight)v;
}

#endif

#endif
