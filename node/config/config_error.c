/* The faults of a configuration, one line each, up to a bound. */
#include "node/config/config_error_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX ((size_t)1 << 20)

void
config_errors_init(struct config_errors *errors)
{
    *errors = (struct config_errors){.count = 0};
    buf_init(&errors->text, TEXT_MAX);
}

void
config_errors_fini(struct config_errors *errors)
{
    buf_fini(&errors->text);
}

bool
config_errors_open(const struct config_errors *errors)
{
    return errors->printed < CONFIG_ERRORS_MAX;
}

/* What is said behind the place: a flag names its path already. */
static const char *
behind(const struct config_place *place, const char *message)
{
    size_t len = strlen(place->source);
    bool named = len > 2 && strncmp(place->source, "--", 2) == 0 &&
                 strncmp(message, place->source + 2, len - 2) == 0 &&
                 strncmp(message + len - 2, ": ", 2) == 0;

    return named ? message + len : message;
}

__attribute__((format(printf, 3, 0))) static void
add(struct config_errors *errors, const struct config_place *place,
    const char *format, va_list args)
{
    char message[768];

    CHECK(place->source != NULL);
    CHECK(errors->printed <= errors->count);
    errors->count++;
    if (!config_errors_open(errors)) {
        return;
    }
    (void)vsnprintf(message, sizeof message, format, args);
    if (place->line != 0) {
        buf_printf(&errors->text, "%s:%u:%u: %s\n", place->source, place->line,
                   place->column, message);
    } else {
        buf_printf(&errors->text, "%s: %s\n", place->source,
                   behind(place, message));
    }
    errors->printed++;
}

void
config_error(struct config_errors *errors, const struct config_place *place,
             const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add(errors, place, format, args);
    va_end(args);
}

void
config_fault(struct config_errors *errors, const char *source,
             const char *format, ...)
{
    const struct config_place place = {.source = source};
    va_list args;

    va_start(args, format);
    add(errors, &place, format, args);
    va_end(args);
}
