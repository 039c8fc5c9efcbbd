/*
 * Assertions that stay in every build, and the attribute that forbids
 * dropping a result.
 *
 * CHECK guards what this program promises itself: arguments, state on entry
 * and exit. It never guards what came from the network, a disk or a
 * configuration: that is an outcome, and outcomes have names.
 *
 * Thread: any. Errors: a failed CHECK prints where and aborts.
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

/* Prints the failed condition and its place to stderr, then aborts. */
NORETURN void base_check_failed(const char *condition, const char *file,
                                int line, const char *function);

#endif
