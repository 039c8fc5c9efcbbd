/* Writes seeds for fuzz_cluster: bodies that came to node 0 of a mesh of four
 * with a partition in it.
 *
 *   cluster_seeds DIRECTORY */
#include <stdio.h>
#include <stdlib.h>

#include "cluster_net.h"

#define FILES 12U
#define FRAME 60U

static struct net net;
static const char *directory;
static uint32_t file_at;
static uint32_t frames;
static uint32_t skip;
static FILE *file;

static void
put(size_t length)
{
    (void)fputc((int)(length & 255), file);
    (void)fputc((int)(length >> 8), file);
}

static void
tap(uint32_t to, const struct net_frame *frame)
{
    if (to != 0 || file_at == FILES || frame->len > 4096 || skip > 0) {
        skip -= skip > 0;
        return;
    }
    if (file == NULL) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/mesh%u", directory, file_at);
        file = fopen(path, "wb");
        if (file == NULL) {
            exit(1);
        }
    }
    put(frame->len);
    (void)fwrite(frame->bytes, 1, frame->len, file);
    if (frames % 5 == 1) {
        put(0xFFFE);
    }
    if (frames % 3 == 0) {
        put(0xFFFF);
    }
    if (++frames % FRAME == 0) {
        (void)fclose(file);
        file = NULL;
        file_at++;
        skip = 1500; /* the next one is of another time */
    }
}

int
main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: cluster_seeds DIRECTORY\n");
        return 2;
    }
    directory = argv[1];
    net_init(&net, 1);
    net.tap = tap;
    net_mesh(&net, 4, 3);
    net_run(&net, 2000);
    net.host[2].engine_severed[0] = true;
    net_run(&net, 3000);
    net_split(&net, 3, 12);
    net_run(&net, 8000);
    net_heal(&net);
    net_run(&net, 6000);
    if (file != NULL) {
        (void)fclose(file);
    }
    net_fini(&net);
    return 0;
}
