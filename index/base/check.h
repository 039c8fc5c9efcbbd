/*
 * Assertions, and the attribute that forbids dropping a result.
 *
 * CHECK guards what this program promises itself: arguments, state on entry
 * and exit. It never guards what came from the network, a disk or a
 * configuration: that is an outcome, and outcomes have names.
 *
 * CHECK is compiled into every build. CHECK_SLOW is the form for lookups that
 * a request waits for and for conditions that walk over data: meson's release
 * build leaves it out (b_ndebug=if-release defines NDEBUG there), every other
 * build has it, among them those of the tests and of the simulator. Its
 * condition must not change anything.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: none.
 * Errors: a failed check prints its place and aborts the process.
 */
#ifndef INDEX_BASE_CHECK_H
#define INDEX_BASE_CHECK_H

#define MUST_CHECK __attribute__((warn_unused_result))
#define NORETURN   __attribute__((noreturn))

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* An expression: a statement would nest each function that uses it deeper. */
#define CHECK(condition) \
    (LIKELY(condition)   \
         ? (void)0       \
         : base_check_failed(#condition, __FILE__, __LINE__, __func__))

/* Type-checked in every build, evaluated in all but the release one. */
#ifdef NDEBUG
#define CHECK_SLOW(condition) ((void)(0 && (condition)))
#else
#define CHECK_SLOW(condition) CHECK(condition)
#endif

/* Prints the failed condition and its place to stderr, then aborts. */
NORETURN void base_check_failed(const char *condition, const char *file,
                                int line, const char *function);

#endif
