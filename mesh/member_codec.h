/*
 * Messages of the membership as bytes.
 *
 * A message is a run of msgpack maps (index/base/pack.h): a head, the sender,
 * then as many records as the head says.
 *
 *   head    k kind, n number, up up_ms, t target, at target_address, u records
 *   record  id, by, i incarnation, age age_ms, s state, n name, a address,
 *           l island
 *
 * An id is a bin of its two words, little endian. An id of zeros and empty
 * texts are left out. Unknown keys are skipped, and so are maps after
 * the last record. An unknown kind is no error (MEMBER_CODEC_UNKNOWN), so
 * members one version apart understand each other.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: MEMBER_CODEC_MAX.
 */
#ifndef MESH_MEMBER_CODEC_H
#define MESH_MEMBER_CODEC_H

#include "mesh/member.h"

#define MEMBER_CODEC_RECORD_MAX \
    (76U + MEMBER_NAME_MAX + MEMBER_ADDRESS_MAX + MEMBER_ISLAND_MAX)
#define MEMBER_CODEC_MAX \
    (128U + (MEMBERS_MAX + 1U) * MEMBER_CODEC_RECORD_MAX) /* bytes */

enum {
    MEMBER_CODEC_BAD = 1, /* incomplete, or with impossible values */
    MEMBER_CODEC_UNKNOWN, /* of a kind that only a later version knows: ignore
                             it */
};

/* Writes a message; returns its size, at most MEMBER_CODEC_MAX. */
size_t member_codec_write(const struct member_message *message,
                          uint8_t bytes[MEMBER_CODEC_MAX]);

/*
 * 0 and the message, fit for member_recv(); or an outcome, and the message is
 * undefined. Fit means: the sender has an id, a name and an address; each
 * update has an id and a name; texts are printable ASCII without spaces; states
 * exist. Updates beyond MEMBERS_MAX are skipped.
 */
int member_codec_read(const uint8_t *bytes, size_t size,
                      struct member_message *message) MUST_CHECK;

#endif
