/*
 * Messages of the membership as bytes.
 *
 *   message  version u8, kind u8, size u16 of the head
 *     head   number u32, up_ms u64, target id, target_address text
 *     record the sender
 *     count  u8, then as many records
 *   record   size u16 of what follows:
 *            id, by id, incarnation u32, age_ms u32, state u8, name text,
 *            address text
 *   id       two u64; text: length u8, bytes
 *
 * Little endian. Whoever adds a field adds it at the end of a head, a record
 * or the message, and whoever does not know it skips it; a kind that is not
 * known is not an error (MEMBER_CODEC_UNKNOWN), so that members one version
 * apart understand each other. A field that is not there is one.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: MEMBER_CODEC_MAX.
 */
#ifndef MESH_MEMBER_CODEC_H
#define MESH_MEMBER_CODEC_H

#include "mesh/member.h"

#define MEMBER_CODEC_VERSION 1U
#define MEMBER_CODEC_RECORD_MAX \
    (2U + 4U * 8U + 4U + 4U + 1U + MEMBER_NAME_MAX + MEMBER_ADDRESS_MAX)
#define MEMBER_CODEC_MAX                                \
    (4U + 4U + 8U + 2U * 8U + MEMBER_ADDRESS_MAX + 1U + \
     (MEMBERS_MAX + 1U) * MEMBER_CODEC_RECORD_MAX)

enum {
    MEMBER_CODEC_BAD = 1, /* cut off, or says what cannot be */
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
