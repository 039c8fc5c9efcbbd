/* Questions for health, and their answers. */
#include "node/extproc/grpc_health.h"

#include "node/extproc/grpc.h"
#include "node/extproc/pb_internal.h"

#define SERVING     1U
#define NOT_SERVING 2U

struct slice
grpc_health_service(struct slice message)
{
    struct pb pb = pb_over(message);
    struct slice service = {NULL, 0};
    struct pb_field field;

    while (pb_next(&pb, &field)) {
        if (pb_is_bytes(&field, 1)) {
            service = field.bytes;
        }
    }
    return service;
}

void
grpc_health_put(struct buf *out, bool serves)
{
    size_t message = grpc_begin(out);

    pb_put_number(out, 1, serves ? SERVING : NOT_SERVING);
    grpc_end(out, message);
}
