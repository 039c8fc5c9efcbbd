/*
 * Decodes one rank's events: takes its stream (kv_stream.h), applies it to the
 * ledger (kv_apply_internal.h), and emits items for the owner of the streams
 * (ingest_stream.h).
 *
 * A batch is applied whole before any of it is emitted. A batch that does not
 * fit although everything before it is known is read again. If it still does
 * not fit, the engine claims something that cannot be true, and the reading
 * continues as an incomplete one; as it does behind a batch that cannot be begun
 * (DECODER_UNREADABLE). A batch that cannot be emitted, because of its length or
 * because the ledger has no stream left, empties both sides; so does one with a
 * removal that cannot be read.
 *
 * Items are written into the sink's memory: reserve() gives room for one and
 * may wait for it; NULL means that the item is lost (the reader ends). commit()
 * hands the item on.
 *
 * Role: core. Owns: the stream, the rank's stream of the ledger. Thread: one
 * owner. Limits: decoder_tools.record_words_max; a batch of tools.words.max
 * words. Errors: notes to the sink.
 */
#ifndef NODE_DECODER_H
#define NODE_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/index.h"
#include "node/events/kv_apply_internal.h"
#include "node/events/kv_stream.h"

/* An item is followed by a struct event_record (RECORD), or a struct
 * decoder_position (POSITION). */
enum intake_item_kind {
    INTAKE_BEGIN,    /* a reading of a process begins (again) */
    INTAKE_RECORD,   /* of the reading: all of one batch that it has in it, and
                      so for each batch, one without a change too; several may
                      have the seq of one. Names are behind the words */
    INTAKE_GAP,      /* batches before the next record are missing for good */
    INTAKE_PROVED,   /* the reading's process lives: the answer to ask */
    INTAKE_STATE,    /* the stream's state changed */
    INTAKE_RESUME,   /* the reading continues where a snapshot ended */
    INTAKE_POSITION, /* the ledger's position when its cut ended (twin.h):
                        everything that it sent by then came before */
    INTAKE_CUT,      /* of no worker: there are no more POSITIONs of that cut */
};

struct intake_item {
    uint32_t kind;
    uint32_t worker;     /* the worker's slot in the fleet */
    uint32_t generation; /* ... and its generation */
    uint32_t rank;
    uint32_t reading; /* the worker's, struct intake_worker */
    uint32_t state;   /* enum kv_stream_state, of now */
    bool whole;       /* BEGIN, RESUME: everything since the process began
                         follows, or came */
    bool last;        /* RECORD: of its batch */
    uint64_t process; /* BEGIN, RESUME: its name */
    uint64_t seq;     /* RESUME: of the last batch */
    uint64_t cut;     /* POSITION, CUT: its number */
    uint64_t
        ask; /* PROVED: the question. BEGIN: the last question known when it began */
    uint64_t fingerprint; /* RECORD: of the batch */
    char reason[40];      /* BEGIN */
};

/* Room for an item with a record of so many words, those of names included. */
#define DECODER_ITEM_BYTES(words)                               \
    (sizeof(struct intake_item) + sizeof(struct event_record) + \
     (size_t)(words) * sizeof(uint64_t))

#define DECODER_BYTES_MAX        2048U           /* of a reading's own */
#define DECODER_NAMES_MAX(words) ((words) + 64U) /* of a record's names */
#define DECODER_READER_EACH      64U /* batches: who reads is said once more */

struct decoder_position {
    uint32_t ledger; /* stream of the ledger */
    uint32_t len;    /* of bytes */
    uint64_t blocks; /* that it holds */
    uint64_t seq;    /* of the last batch in it */
    uint64_t process;
    char bytes[]; /* decoder_image() */
};

enum decoder_note {
    DECODER_LEDGER_FULL, /* no stream of it is free */
    DECODER_DO_NOT_FIT,  /* seq: batches make no sense, read twice */
    DECODER_TOO_LONG,    /* seq: a batch that was too long to emit, or to read
                            what it removes */
    DECODER_UNREADABLE,  /* seq: a batch that could not be begun */
};

struct decoder_sink {
    void *context;
    void *(*reserve)(void *context, size_t size);
    void (*commit)(void *context);
    void (*note)(void *context, enum decoder_note note, uint64_t seq);
};

/* What all readings of one thread share. */
struct decoder_tools {
    struct ledger *ledger;
    struct kv_reader *reader;
    struct event_words words; /* of one batch */
    struct names_said names;  /* ... words_max 0: names are not told */
    uint32_t record_words_max;
    struct kv_listener listener; /* for all; wants NULL: nobody listens */
};

struct decoder {
    struct kv_stream *stream;
    struct decoder_tools *tools;
    struct kv_counters *counters;
    struct decoder_sink sink;
    /* Who it is; in each item. */
    uint64_t identity;
    uint32_t worker;
    uint32_t generation;
    uint32_t rank;
    uint32_t number;
    /* What it knows. */
    struct kv_apply apply;
    struct kv_listener listener; /* of tools, for this worker */
    bool has_ledger;             /* ledger_stream is open */
    uint32_t ledger_stream;
    uint64_t process; /* that is read */
    bool whole;       /* ... from its beginning, without a gap */
    bool gap;         /* one was told, and no record since */
    bool reader_told; /* `reader` is what the names said last */
    uint32_t reader_count;
    uint64_t reader[NAMES_READER_MAX];
    uint64_t told_end;  /* behind the process's last batch that was told */
    bool reader_again;  /* a reading began below: `reader` is said once more
                          with the first batch from there on */
    uint64_t unfit_seq; /* of the last batch that did not fit */
    uint64_t unfit_fingerprint; /* ... and its digest; 0: none yet */
    bool doubted; /* ... for which the ledger is to be read again */
};

/* Carries out one of the stream's outputs: APPLY, BEGIN, GAP, PROVED or STATE; the
 * others, which are of sockets, are ignored. */
void decoder_take(struct decoder *decoder, const struct kv_out *out,
                  uint64_t now_us);

/* Asks the stream to read again (kv_stream_reread()), under this question's
 * number. */
void decoder_reread(struct decoder *decoder, uint64_t ask, uint64_t now_us);

/*
 * Appends to out what is needed to continue from here in another process,
 * beside the ledger: DECODER_BYTES_MAX at most, as numbers with a version of
 * their own. False: there is nothing to continue from (kv_stream_image()), or
 * out failed.
 */
bool decoder_image(const struct decoder *decoder, struct buf *out) MUST_CHECK;

/* What goes with the names that a stream's reader told: the part of an image
 * that is not the position. At most NAMES_READER_MAX words. Returns how many; 0:
 * nobody can go on from the names. Peers hear of it once in DECODER_READER_EACH
 * batches, unless it changes. So a question that waits for its turn does not
 * change it. What a reading that begins again says of it is said twice: peers who
 * have its first batches take nothing from them. They may have the next ones, too,
 * where another reader is ahead, so it comes back each so many batches.
 */
uint32_t decoder_reader(const struct decoder *decoder, uint64_t *words);

/* Appends to out an image of the reading that told these words, after the batch
 * seq of that fingerprint. False: they make no sense, or out failed. */
bool decoder_image_of(const uint64_t *words, uint32_t count, uint64_t seq,
                      uint64_t fingerprint, struct buf *out) MUST_CHECK;

/* Whether these bytes, from a file, are such an image of a known version; *seq:
 * of the last batch. */
bool decoder_image_check(struct slice bytes, uint64_t *seq) MUST_CHECK;

/* Begins a new reading whose ledger_stream is the one that the ledger was
 * loaded with. False: it begins from scratch, and the ledger's stream is closed
 * when it does. */
bool decoder_resume(struct decoder *decoder, uint32_t ledger_stream,
                    struct slice bytes) MUST_CHECK;

/* What a reading goes on from: an image, and the names that belong to it. Filling
 * the ledger with them takes long, so it is done in steps. */
struct decoder_hand;

/* From a twin that is complete, which is taken over and emptied, whatever comes
 * of it. NULL: no memory, or it makes no sense. */
struct decoder_hand *decoder_hand_new(struct names_twin *twin, uint64_t seq,
                                      uint64_t fingerprint);

/* How many names are in it, until decoder_hand_step(). */
uint64_t decoder_hand_count(const struct decoder_hand *hand);

/* Frees it; a stream of the ledger that it has is closed. NULL is fine. */
void decoder_hand_free(struct decoder_hand *hand);

/* Fills a stream of the ledger, in about `budget` steps of one block. False: it
 * is filled, or it never will be. Call it with the same ledger until then. */
bool decoder_hand_step(struct decoder_hand *hand, struct ledger *ledger,
                       uint32_t budget) MUST_CHECK;

/* As decoder_resume(), with the ledger's stream filled from the names, which is
 * the decoder's then. False: it could not be filled, or makes no sense; the
 * decoder begins from scratch. */
bool decoder_adopt(struct decoder *decoder, struct decoder_hand *hand)
    MUST_CHECK;

/* Emits INTAKE_RESUME; call it once, before anything else is emitted. */
void decoder_tell_resume(struct decoder *decoder);

/* Emits an INTAKE_POSITION, if there is something to continue from. */
void decoder_tell_position(struct decoder *decoder, uint64_t cut);

/* The ledger forgets the rank. */
void decoder_close(struct decoder *decoder);

#endif
