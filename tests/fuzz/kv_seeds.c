/*
 * Writes batches of KV events, one file each, to start a corpus from:
 *   kv_seeds DIR
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/node/events/kv_batch.h"
#include "tests/unit/node/events/kv_vectors.h"

static const char *dir;
static struct kv_batch batch;

static void
write_seed(const char *name)
{
    char path[4096];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    (void)fwrite(batch.bytes, 1, batch.len, file);
    if (fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

static void
write_hex(const char *name, const char *hex)
{
    unsigned byte;

    batch.len = 0;
    for (; sscanf(hex, "%2x", &byte) == 1; hex += 2) {
        put_byte(&batch, byte);
    }
    write_seed(name);
}

/* All slots that arrays ever had, and one too many. */
static void
write_arrays(void)
{
    put_envelope(&batch, 3);
    put_stored(&batch, 9, 1000, 2, 999, 100, 16);
    put_uint(&batch, 1);
    put_text(&batch, "CPU_PINNED");
    put_text(&batch, "ada");
    put_array(&batch, 2);
    put_nil(&batch);
    put_array(&batch, 5);
    put_text(&batch, "ada");
    put_array(&batch, 2);
    put_text(&batch, "image");
    put_int(&batch, -3);
    put_bin(&batch, "0123456789abcdef", 16);
    put_text(&batch, "salt");
    put_map(&batch, 2);
    put_pair(&batch, "type", "cache_salt");
    put_pair(&batch, "salt", "tenant");
    put_array(&batch, 0);
    put_uint(&batch, 2);
    put_text(&batch, "full_attention");
    put_text(&batch, "REMOTE");
    put_nil(&batch);
    put_array(&batch, 6);
    put_text(&batch, "BlockRemoved");
    put_uints(&batch, UINT64_MAX - 3, 3);
    put_text(&batch, "GPU");
    put_uint(&batch, 0);
    put_text(&batch, "LOCAL");
    put_nil(&batch);
    put_cleared(&batch);
    write_seed("arrays");
}

static void
write_maps(void)
{
    put_envelope(&batch, 2);
    put_stored_map(&batch, 9, 70000, 3, 69999, 65530, 4);
    put_text(&batch, "lora_id");
    put_int(&batch, -1);
    put_pair(&batch, "lora_name", "ada");
    put_pair(&batch, "cache_salt", "tenant");
    put_pair(&batch, "locality", "REMOTE");
    put_pair(&batch, "kv_cache_spec_kind", "mamba");
    put_pair(&batch, "medium", NULL);
    put_text(&batch, "group_idx");
    put_uint(&batch, 7);
    put_text(&batch, "mm_keys");
    put_array(&batch, 1);
    put_array(&batch, 1);
    put_map(&batch, 1);
    put_pair(&batch, "hash", "00ff");
    put_text(&batch, "extra_keys");
    put_nil(&batch);
    put_removed_map(&batch, 2, 5, 2);
    put_text(&batch, "remaining_copy_counts");
    put_uints(&batch, 0, 2);
    put_pair(&batch, "unknown", "thing");
    write_seed("maps");
}

static void
write_faults(void)
{
    put_envelope(&batch, 4);
    put_stored(&batch, 0, 5, 2, 6, 1, 4);
    put_stored_map(&batch, 1, 1, 2, 0, 1, 4);
    put_text(&batch, "block_size");
    put_uint(&batch, 3);
    put_array(&batch, 5);
    put_text(&batch, "BlockStored");
    put_array(&batch, 1);
    put_bin(&batch, "0123456789abcdef0123456789abcdef", 32);
    put_nil(&batch);
    put_array(&batch, 3);
    put_text(&batch, "image");
    put_uints(&batch, 300, 2);
    put_uint(&batch, 70000);
    put_uint(&batch, 3);
    put_array(&batch, 2);
    put_text(&batch, "BlockMoved");
    put_uints(&batch, 1, 20);
    write_seed("faults");
}

int
main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: kv_seeds DIR\n");
        return 2;
    }
    dir = argv[1];
    write_hex("v1", KV_V1);
    write_hex("v2", KV_V2);
    write_hex("v3", KV_V3);
    write_hex("v3b", KV_V3B);
    write_hex("v4", KV_V4);
    write_hex("v5", KV_V5);
    write_hex("s1", KV_S1);
    write_hex("s2", KV_S2);
    write_hex("s3", KV_S3);
    write_hex("s4", KV_S4);
    write_arrays();
    write_maps();
    write_faults();
    put_envelope(&batch, 1);
    put_stored(&batch, 0, 1, 90, 0, 100, 4);
    write_seed("long");
    return 0;
}
