/* Rows, keys and files: what reading and writing have in common. */
#include "rows.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void row_at(const batch_t *b, int64_t number, row_t *row) {
    if (b->points.coords) {
        points_at(b, number, row);
        return;
    }
    row->whole = 1;
    for (int i = b->chain->ndim - 1; i >= 0; i--) {
        const axis_t *a = &b->axes[i];
        int64_t k = number % a->length;
        number /= a->length;
        row->part[i] = k;
        row->coords[i] = a->chunk[k];
        row->inner[i] = a->inner[k];
        row->outer[i] = a->outer[k];
        row->count[i] = a->count[k];
        row->whole &= a->whole[k] != 0;
    }
}

int row_key(const batch_t *b, const row_t *row, char *key) {
    if (b->prefix_size > PATH_MAX - 64) return -1;
    int ndim = b->chain->ndim, at = (int)b->prefix_size;
    memcpy(key, b->prefix, b->prefix_size);
    if (b->style != 1) key[at++] = 'c';
    if (b->style == 1 && ndim == 0) key[at++] = '0';
    for (int i = 0; i < ndim; i++) {
        if (at > PATH_MAX - 64) return -1;
        if (i > 0 || b->style == 0) key[at++] = (char)b->separator;
        at += snprintf(key + at, 24, "%lld", (long long)row->coords[i]);
    }
    key[at] = 0;
    return 0;
}

/* A number for the state of a file, never that of an absent one. */
static uint64_t identity_of(const struct stat *info) {
    uint64_t parts[] = {(uint64_t)info->st_dev, (uint64_t)info->st_ino, (uint64_t)info->st_size,
                        (uint64_t)info->st_mtim.tv_sec, (uint64_t)info->st_mtim.tv_nsec};
    uint64_t mixed = 0;
    for (int i = 0; i < 5; i++) {
        mixed = (mixed ^ parts[i]) * 0x9e3779b97f4a7c15u;
        mixed ^= mixed >> 29;
    }
    return mixed | 2;
}

int open_source(const batch_t *b, const row_t *row, int64_t number, source_t *source) {
    source->file = -1;
    source->data = NULL;
    source->size = 0;
    source->identity = ABSENT;
    if (b->values) {
        source->data = b->values[number].data;
        source->size = (int64_t)b->values[number].size;
        return source->data ? 0 : ABSENT;
    }
    char key[PATH_MAX];
    struct stat info;
    if (row_key(b, row, key)) return -1;
    /* Without O_NONBLOCK, opening a named pipe would wait for a writer. */
    source->file = openat(b->directory, key, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (source->file < 0) return errno == ENOENT || errno == ENOTDIR ? ABSENT : -1;
    if (fstat(source->file, &info) != 0) return -1;
    if (S_ISDIR(info.st_mode)) return ABSENT;
    if (!S_ISREG(info.st_mode)) return -1;
    source->size = info.st_size;
    source->identity = identity_of(&info);
    return 0;
}

void close_source(source_t *source) {
    if (source->file >= 0) close(source->file);
}

int read_exactly(int file, unsigned char *to, size_t size, int64_t from) {
    while (size) {
        ssize_t got = pread(file, to, size, (off_t)from);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return -1;
        to += got, from += got, size -= (size_t)got;
    }
    return 0;
}

int fetch(source_t *source, int64_t from, int64_t size, buffer_t *buffer,
          const unsigned char **data) {
    if (from < 0 || size < 0 || from > source->size || size > source->size - from) return -1;
    if (source->file < 0) {
        *data = source->data + from;
        return 0;
    }
    if (buffer_reserve(buffer, size ? (size_t)size : 1)) return -1;
    *data = buffer->data;
    return read_exactly(source->file, buffer->data, (size_t)size, from);
}

/* Whether a tenth of a second has gone since `last`, which is then now. */
static int due(struct timespec *last) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t gone = (int64_t)(now.tv_sec - last->tv_sec) * 1000000000 + now.tv_nsec - last->tv_nsec;
    if (gone < 100000000) return 0;
    *last = now;
    return 1;
}

uint64_t index_entry(const chain_t *c, const unsigned char *p) {
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v |= (uint64_t)p[c->index_swap ? 7 - i : i] << (8 * i);
    return v;
}

int clip(int64_t start, int64_t count, int64_t step, int64_t low, int64_t high,
                int64_t *inner, int64_t *outer, int64_t *number) {
    int64_t first = start >= low ? 0 : (low - start + step - 1) / step;
    int64_t beyond = start >= high ? 0 : (high - start + step - 1) / step;
    if (beyond > count) beyond = count;
    if (beyond <= first) return 0;
    *inner = start + first * step - low;
    *outer = first;
    *number = beyond - first;
    return 1;
}

void work(batch_t *b, int (*interrupted)(batch_t *)) {
    scratch_t *s = scratch_take();
    struct timespec last;
    clock_gettime(CLOCK_MONOTONIC, &last);
    int64_t total = b->rows * b->slices;
    while (!atomic_load(&b->stop)) {
        int64_t n = atomic_fetch_add(&b->next, 1);
        if (n >= total) break;
        int64_t row = n / b->slices;
        int bad = !s             ? -1
                  : b->writing ? write_row(b, s, row, n % b->slices)
                               : read_row(b, s, row, n % b->slices);
        if (bad) atomic_store(&b->failed[row], 1);
        if (interrupted && due(&last) && interrupted(b)) atomic_store(&b->stop, 1);
    }
    if (s) scratch_give(s);
}
