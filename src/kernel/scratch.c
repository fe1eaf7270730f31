/* Buffers and contexts of a thread, kept from one batch to the next: fresh memory is slow, as the
 * system has to clear it, and so are fresh contexts. */
#include "kernel.h"

#include <blosc2.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 16
#define MOST_KEPT ((long long)48 << 20) /* bytes in all */

size_t ZSTD_sizeof_DCtx(const void *);
size_t ZSTD_sizeof_CCtx(const void *);
size_t ZSTD_freeDCtx(void *);
size_t ZSTD_freeCCtx(void *);

static _Atomic(scratch_t *) kept[SLOTS];
static atomic_llong kept_bytes;

int buffer_reserve(buffer_t *b, size_t size) {
    if (b->size >= size) return 0;
    free(b->data);
    b->data = malloc(size);
    b->size = b->data ? size : 0;
    return b->data ? 0 : -1;
}

static long long bytes_of(const scratch_t *s) {
    size_t total = 0;
    for (int i = 0; i < BUFFERS; i++) total += s->buffers[i].size;
    if (s->zstd_d) total += ZSTD_sizeof_DCtx(s->zstd_d);
    if (s->zstd_c) total += ZSTD_sizeof_CCtx(s->zstd_c);
    return (long long)total;
}

static void destroy(scratch_t *s) {
    for (int i = 0; i < BUFFERS; i++) free(s->buffers[i].data);
    if (s->blosc) blosc2_free_ctx(s->blosc);
    if (s->zstd_d) ZSTD_freeDCtx(s->zstd_d);
    if (s->zstd_c) ZSTD_freeCCtx(s->zstd_c);
    deflate_free(s);
    free(s);
}

scratch_t *scratch_take(void) {
    for (int i = 0; i < SLOTS; i++) {
        scratch_t *found = atomic_exchange(&kept[i], NULL);
        if (!found) continue;
        atomic_fetch_sub(&kept_bytes, found->bytes);
        return found;
    }
    return calloc(1, sizeof(scratch_t));
}

void scratch_give(scratch_t *s) {
    s->bytes = bytes_of(s);
#ifdef __SANITIZE_ADDRESS__
    s->bytes = MOST_KEPT + 1; /* a kept buffer is larger than asked for and hides what is wrong */
#endif
    if (atomic_fetch_add(&kept_bytes, s->bytes) + s->bytes <= MOST_KEPT)
        for (int i = 0; i < SLOTS; i++) {
            scratch_t *none = NULL;
            if (atomic_compare_exchange_strong(&kept[i], &none, s)) return;
        }
    atomic_fetch_sub(&kept_bytes, s->bytes);
    destroy(s);
}
