/*
 * Linked into a node under test: a part of an exchange that is told of cannot be
 * had (exchange_part(), which the linker wraps). KVASIR_TEST_PARTS is a file of one
 * number: how many parts from now on the next failure is; 0: none.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct exchange;
/* NOLINTBEGIN(clang-diagnostic-reserved-identifier) */
void *__real_exchange_part(struct exchange *x, size_t size);
void *__wrap_exchange_part(struct exchange *x, size_t size);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

static _Atomic uint32_t *left;

/* Before the node is kept from its files. */
__attribute__((constructor)) static void
begin(void)
{
    int fd = open(getenv("KVASIR_TEST_PARTS"), O_RDWR | O_CLOEXEC);
    void *page =
        mmap(NULL, sizeof(*left), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (fd < 0 || page == MAP_FAILED) {
        abort();
    }
    (void)close(fd);
    left = page;
}

void *
__wrap_exchange_part(struct exchange *x, size_t size)
{
    uint32_t now = atomic_load(left);

    while (now != 0 && !atomic_compare_exchange_weak(left, &now, now - 1)) {
    }
    if (now == 1) {
        return NULL;
    }
    return __real_exchange_part(x, size);
}
