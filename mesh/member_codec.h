/*
 * Messages of the membership as bytes.
 *
 * A message is a run of msgpack maps (index/base/pack.h): a head, the sender,
 * then as many records as the head says.
 *
 *   head    k kind, n number, up up_ms, t target, at target_address, u records
 *   record  id, by, i incarnation, age age_ms, s state, n name, a address
 *
 * An id is a bin of its two words, little endian; one of zeros is left out, as
 * is an empty target_address. Keys that are not known are skipped, and so are
 * maps after the last record. A kind that is not known is not an error
 * (MEMBER_CODEC_UNKNOWN), so that members one version apart understand each
 * other.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: MEMBER_CODEC_MAX.
 */
#ifndef MESH_MEMBER_CODEC_H
#define MESH_MEMBER_CODEC_H

#include "mesh/member.h"

#define MEMBER_CODEC_RECORD_MAX (72U + MEMBER_NAME_MAX + MEMBER_ADDRESS_MAX)
#define MEMBER_CODEC_MAX \
    (128U + (MEMBERS_MAX + 1U) * MEMBER_CODEC_RECORD_MAX) /* bytes */

enum {
    MEMBER_CODEC_BAD = 1, /* not whole, or says what cannot be */
    MEMBER_CODEC_UNKNOWN, /* of a kind that a later version has: ignore it */
};

/* The number of bytes written, MEMBER_CODEC_MAX at most. */
size_t member_codec_write(const struct member_message *message,
                          uint8_t bytes[MEMBER_CODEC_MAX]);

/*
 * 0 and the message, fit for member_recv(), or an outcome and the message is
 * undefined. Fit: the sender has an id, a name and an address; each update
 * has an id and a name; texts are printable ASCII without spaces; states
 * exist. Updates past MEMBERS_MAX are skipped.
 */
int member_codec_read(const uint8_t *bytes, size_t size,
                      struct member_message *message) MUST_CHECK;

#endif
