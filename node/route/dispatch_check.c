/* What holds of a request in each of its states. */
#include "node/route/dispatch.h"

bool
dispatch_check(const struct dispatch *d, const char **reason)
{
    /* With resumed: the lease of the attempt that was severed, or none. */
    bool severed = d->state == DISPATCH_LOST && d->status != 0 &&
                   (d->resumed == 0 || d->choice.lease.taken);
    enum dispatch_half half = d->split.half;
    bool sent = d->state == DISPATCH_PREFILLING ||
                d->state == DISPATCH_CONNECTING ||
                d->state == DISPATCH_WAITING ||
                d->state == DISPATCH_STREAMING || severed;

    *reason = NULL;
    if (d->choice.lease.taken != sent) {
        *reason = "a lease is held without an attempt, or the reverse";
    } else if (d->attempts_count > DISPATCH_ATTEMPTS_MAX) {
        *reason = "more attempts than there is room for"; /* attempts_max may
                                                             be lower by now */
    } else if ((d->status != 0) != (d->first_byte_us != 0)) {
        *reason = "an answer without a status, or the reverse";
    } else if (d->ticket != 0 &&
               (!sent || (d->status != 0 && d->resumed == 0))) {
        *reason = "control waits for an attempt that has been settled";
    } else if ((d->queued_us != 0) != (d->state == DISPATCH_QUEUED) &&
               d->state != DISPATCH_ENDED) {
        *reason = "it waits for room in another state, or the reverse";
    } else if (d->split.choice.prefill.lease.taken !=
               (half == DISPATCH_HALF_CONNECTING ||
                half == DISPATCH_HALF_WAITING)) {
        *reason = "a lease is held without a prefill half, or the reverse";
    } else if (half != DISPATCH_HALF_NONE && !sent) {
        *reason = "a prefill half runs alone";
    } else if (d->began && d->choice.lease.queued_tokens != 0) {
        *reason = "a prompt waits although its answer has begun";
    }
    return *reason == NULL;
}
