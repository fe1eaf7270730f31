/* Make allocations fail on request: loaded before the C library (LD_PRELOAD).
 *
 * `fail_from` has the n-th allocation of at least so many bytes fail, or that and all after it,
 * until `fail_no_more`, which returns how many have failed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static atomic_long left, failed;
static atomic_size_t least;
static atomic_int armed, all;

void fail_from(long number, size_t size, int and_after) {
    atomic_store(&failed, 0);
    atomic_store(&left, number);
    atomic_store(&least, size);
    atomic_store(&all, and_after);
    atomic_store(&armed, 1);
}

long fail_no_more(void) {
    atomic_store(&armed, 0);
    return atomic_load(&failed);
}

static int fails(size_t size) {
    if (!atomic_load(&armed) || size < atomic_load(&least)) return 0;
    long before = atomic_fetch_sub(&left, 1);
    if (before > 0 || (before < 0 && !atomic_load(&all))) return 0;
    atomic_fetch_add(&failed, 1);
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return fails(size) ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total) || fails(total)) return NULL;
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) { return fails(size) ? NULL : __libc_realloc(old, size); }

void *memalign(size_t step, size_t size) { return fails(size) ? NULL : __libc_memalign(step, size); }

void *aligned_alloc(size_t step, size_t size) { return memalign(step, size); }

int posix_memalign(void **place, size_t step, size_t size) {
    void *found = memalign(step, size);
    if (!found) return ENOMEM;
    *place = found;
    return 0;
}

void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset) {
    if ((flags & MAP_ANONYMOUS) && fails(size)) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
}

void *mmap64(void *at, size_t size, int protection, int flags, int file, off_t offset) {
    return mmap(at, size, protection, flags, file, offset);
}
