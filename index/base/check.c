/*
 * What a failed check prints before the process aborts.
 */
#include "index/base/check.h"

#include <stdio.h>
#include <stdlib.h>

NORETURN void
base_check_failed(const char *condition, const char *file, int line,
                  const char *function)
{
    (void)fprintf(stderr, "check_failed condition=\"%s\" at=%s:%d in=%s\n",
                  condition, file, line, function);
    abort();
}
