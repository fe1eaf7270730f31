/* Reading and writing one chunk after the other. */
#include "rows.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MISSING UINT64_MAX
enum { ABSENT = 1 };

/* Where encoded bytes are: an open file, or memory. */
typedef struct {
    int file;
    const unsigned char *data;
    int64_t size;
} source_t;

void row_at(const batch_t *b, int64_t number, row_t *row) {
    row->whole = 1;
    for (int i = b->chain->ndim - 1; i >= 0; i--) {
        const axis_t *a = &b->axes[i];
        int64_t k = number % a->length;
        number /= a->length;
        row->coords[i] = a->chunk[k];
        row->inner[i] = a->inner[k];
        row->outer[i] = a->outer[k];
        row->count[i] = a->count[k];
        row->whole &= a->whole[k];
    }
}

int row_key(const batch_t *b, const row_t *row, char *key) {
    int ndim = b->chain->ndim, at = b->prefix_size;
    memcpy(key, b->prefix, (size_t)at);
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

static int open_source(const batch_t *b, const row_t *row, int64_t number, source_t *source) {
    source->file = -1;
    source->data = NULL;
    if (b->values) {
        source->data = b->values[number].data;
        source->size = (int64_t)b->values[number].size;
        return source->data ? 0 : ABSENT;
    }
    char key[PATH_MAX];
    struct stat info;
    if (row_key(b, row, key)) return -1;
    source->file = openat(b->directory, key, O_RDONLY | O_CLOEXEC);
    if (source->file < 0) return errno == ENOENT || errno == ENOTDIR ? ABSENT : -1;
    if (fstat(source->file, &info) != 0) return -1;
    if (S_ISDIR(info.st_mode)) return ABSENT;
    source->size = info.st_size;
    return 0;
}

static void close_source(source_t *source) {
    if (source->file >= 0) close(source->file);
}

static int read_exactly(int file, unsigned char *to, size_t size, off_t from) {
    while (size) {
        ssize_t got = pread(file, to, size, from);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return -1;
        to += got, from += got, size -= (size_t)got;
    }
    return 0;
}

/* Part of a source, in `buffer` where it has to be read. */
static int fetch(source_t *source, int64_t from, int64_t size, buffer_t *buffer,
                 const unsigned char **data) {
    if (from < 0 || size < 0 || from > source->size || size > source->size - from) return -1;
    if (source->file < 0) {
        *data = source->data + from;
        return 0;
    }
    if (buffer_reserve(buffer, size ? (size_t)size : 1)) return -1;
    *data = buffer->data;
    return read_exactly(source->file, buffer->data, (size_t)size, (off_t)from);
}

/* Whether a box in the chunk and in the target are one and the same run of bytes. */
static int same_run(const chain_t *c, const int64_t *count, const int64_t *steps,
                    const int64_t *strides) {
    int64_t expected = c->itemsize;
    for (int i = c->ndim - 1; i >= 0; i--) {
        if (count[i] != c->shape[i] || steps[i] != 1 || c->perm[i] != i) return 0;
        if (count[i] > 1 && strides[i] != expected) return 0;
        expected *= c->shape[i];
    }
    return 1;
}

/* Decodes one chunk and copies a box of it into the target. */
static int place(const chain_t *c, scratch_t *s, const unsigned char *data, size_t size,
                 const int64_t *inner, const int64_t *count, const int64_t *steps,
                 unsigned char *target, const int64_t *strides) {
    int direct = same_run(c, count, steps, strides);
    const unsigned char *found;
    if (!direct && buffer_reserve(&s->work, c->nbytes ? (size_t)c->nbytes : 1)) return -1;
    if (decode_steps(c, s, data, size, direct ? target : s->work.data, &found)) return -1;
    if (direct && !c->swap) {
        if (found != target) memcpy(target, found, (size_t)c->nbytes);
        return 0;
    }
    if (c->swap) {
        unsigned char *own = direct ? target : s->work.data;
        if (found != own) memcpy(own, found, (size_t)c->nbytes);
        swap_bytes(own, c->nbytes, c->swap);
        found = own;
    }
    if (direct) return 0;
    int64_t from[MAX_AXES];
    for (int i = 0; i < c->ndim; i++) {
        found += inner[i] * c->strides[i];
        from[i] = c->strides[i] * steps[i];
    }
    copy_box(c->ndim, count, c->itemsize, found, from, target, strides);
    return 0;
}

static void place_fill(const chain_t *c, const int64_t *count, unsigned char *target,
                       const int64_t *strides) {
    static const int64_t none[MAX_AXES];
    copy_box(c->ndim, count, c->itemsize, c->fill, none, target, strides);
}

static uint64_t index_entry(const chain_t *c, const unsigned char *p) {
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v |= (uint64_t)p[c->index_swap ? 7 - i : i] << (8 * i);
    return v;
}

/* The part of one axis of a box that lies in an inner chunk. */
static int clip(int64_t start, int64_t count, int64_t step, int64_t low, int64_t high,
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

static int read_shard(const batch_t *b, scratch_t *s, source_t *source, const row_t *row,
                      const int64_t *steps, unsigned char *target, int64_t slice) {
    const chain_t *c = b->chain, *k = c->inner;
    int64_t index_size = 16 * c->inner_count + (c->index_crc ? 4 : 0);
    const unsigned char *data, *index;
    if (source->size < index_size) return -1;
    if (fetch(source, c->index_at_end ? source->size - index_size : 0, index_size, &s->raw, &data))
        return -1;
    if (c->index_crc) {
        uint32_t sum = crc32c(data, (size_t)index_size - 4);
        for (int i = 0; i < 4; i++)
            if (data[index_size - 4 + i] != (unsigned char)(sum >> (8 * i))) return -1;
    }
    unsigned char *own = malloc((size_t)index_size);
    if (!own) return -1;
    memcpy(own, data, (size_t)index_size);
    index = own;
    /* Inner chunks that the box touches, as a box of its own. */
    int64_t low[MAX_AXES], many[MAX_AXES], total = 1;
    for (int i = 0; i < c->ndim; i++) {
        int64_t last = row->inner[i] + (row->count[i] - 1) * steps[i];
        low[i] = row->inner[i] / k->shape[i];
        many[i] = last / k->shape[i] - low[i] + 1;
        total *= many[i];
    }
    int64_t begin = total * slice / b->slices, end = total * (slice + 1) / b->slices;
    int bad = 0;
    for (int64_t n = begin; n < end && !bad; n++) {
        int64_t inner[MAX_AXES], outer, count[MAX_AXES], rest = n, entry = 0, weight = 1;
        unsigned char *to = target;
        int touched = 1;
        for (int i = c->ndim - 1; i >= 0; i--) {
            int64_t at = low[i] + rest % many[i];
            rest /= many[i];
            entry += at * weight;
            weight *= c->counts[i];
            touched &= clip(row->inner[i], row->count[i], steps[i], at * k->shape[i],
                            (at + 1) * k->shape[i], &inner[i], &outer, &count[i]);
            if (!touched) break;
            to += outer * b->strides[i];
        }
        if (!touched) continue;
        uint64_t offset = index_entry(c, index + 16 * entry);
        uint64_t size = index_entry(c, index + 16 * entry + 8);
        if (offset == MISSING && size == MISSING) {
            place_fill(k, count, to, b->strides);
        } else if (offset > INT64_MAX || size > INT64_MAX ||
                   fetch(source, (int64_t)offset, (int64_t)size, &s->raw, &data)) {
            bad = 1;
        } else {
            bad = place(k, s, data, (size_t)size, inner, count, steps, to, b->strides);
        }
    }
    free(own);
    return bad ? -1 : 0;
}

int read_row(const batch_t *b, scratch_t *s, int64_t number, int64_t slice) {
    const chain_t *c = b->chain;
    int64_t steps[MAX_AXES];
    row_t row;
    source_t source;
    row_at(b, number, &row);
    unsigned char *target = b->array;
    for (int i = 0; i < c->ndim; i++) {
        target += row.outer[i] * b->strides[i];
        steps[i] = b->axes[i].step;
    }
    int state = open_source(b, &row, number, &source);
    int bad = state < 0 ? -1 : 0;
    if (state == ABSENT) {
        if (slice == 0) place_fill(c, row.count, target, b->strides);
    } else if (state == 0 && c->inner) {
        bad = read_shard(b, s, &source, &row, steps, target, slice);
    } else if (state == 0) {
        const unsigned char *data;
        bad = fetch(&source, 0, source.size, &s->raw, &data);
        if (!bad)
            bad = place(c, s, data, (size_t)source.size, row.inner, row.count, steps, target,
                        b->strides);
    }
    close_source(&source);
    return bad;
}

/* Writing */

static int make_parents(int directory, char *key) {
    for (char *p = strchr(key, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        int bad = mkdirat(directory, key, 0777) != 0 && errno != EEXIST;
        *p = '/';
        if (bad) return -1;
    }
    return 0;
}

/* Written under a name of its own, then renamed: readers see the old value or the new one. */
static int store(const batch_t *b, const row_t *row, const unsigned char *data, size_t size) {
    char key[PATH_MAX], partial[PATH_MAX];
    if (row_key(b, row, key)) return -1;
    if (!data) return unlinkat(b->directory, key, 0) != 0 && errno != ENOENT && errno != ENOTDIR;
    int n = snprintf(partial, sizeof partial, "%s.__omnizarr_partial__%ld_%lx", key,
                     (long)getpid(), (unsigned long)pthread_self());
    if (n < 0 || n >= (int)sizeof partial) return -1;
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
    int file = openat(b->directory, partial, flags, 0666);
    if (file < 0 && errno == ENOENT) {
        if (make_parents(b->directory, partial)) return -1;
        file = openat(b->directory, partial, flags, 0666);
    }
    if (file < 0) return -1;
    int bad = 0;
    while (size && !bad) {
        ssize_t done = write(file, data, size);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) bad = -1;
        else data += done, size -= (size_t)done;
    }
    if (close(file) != 0) bad = -1;
    if (!bad && renameat(b->directory, partial, b->directory, key) != 0) bad = -1;
    if (bad) unlinkat(b->directory, partial, 0);
    return bad;
}

/* The decoded bytes of a chunk: a box from the array, the rest as it was or the fill value. */
static int gather(const batch_t *b, scratch_t *s, const chain_t *c, const row_t *row,
                  int64_t number, const unsigned char *from, unsigned char **data) {
    int64_t steps[MAX_AXES], to[MAX_AXES];
    int full = 1;
    for (int i = 0; i < c->ndim; i++) {
        steps[i] = b->axes[i].step;
        to[i] = c->strides[i] * steps[i];
        full &= row->count[i] == c->shape[i];
    }
    if (buffer_reserve(&s->work, c->nbytes ? (size_t)c->nbytes : 1)) return -1;
    unsigned char *target = s->work.data;
    if (!row->whole) {
        source_t source;
        const unsigned char *old, *found;
        int state = open_source(b, row, number, &source);
        int bad = state < 0 ? -1 : 0;
        if (state == 0) {
            bad = fetch(&source, 0, source.size, &s->raw, &old);
            if (!bad) bad = decode_steps(c, s, old, (size_t)source.size, target, &found);
            if (!bad && found != target) memcpy(target, found, (size_t)c->nbytes);
            if (!bad && c->swap) swap_bytes(target, c->nbytes, c->swap);
        } else if (state == ABSENT) {
            put_fill(c, target);
        }
        close_source(&source);
        if (bad) return bad;
    } else if (!full) {
        put_fill(c, target);
    }
    for (int i = 0; i < c->ndim; i++) target += row->inner[i] * c->strides[i];
    copy_box(c->ndim, row->count, c->itemsize, from, b->strides, target, to);
    *data = s->work.data;
    return 0;
}

static int encode(const chain_t *c, scratch_t *s, unsigned char *data,
                  const unsigned char **result, size_t *size) {
    if (!c->keep_empty && is_fill(c, data)) {
        *result = NULL;
        return 0;
    }
    if (c->swap) swap_bytes(data, c->nbytes, c->swap);
    return encode_steps(c, s, data, result, size);
}

static void put_index(const chain_t *c, unsigned char *p, uint64_t v) {
    for (int i = 0; i < 8; i++) p[c->index_swap ? 7 - i : i] = (unsigned char)(v >> (8 * i));
}

/* A whole shard: every inner chunk encoded in turn, then the index. */
static int write_shard(const batch_t *b, scratch_t *s, const row_t *row,
                       const unsigned char *from) {
    const chain_t *c = b->chain, *k = c->inner;
    size_t index_size = 16 * (size_t)c->inner_count + (c->index_crc ? 4 : 0);
    size_t used = c->index_at_end ? 0 : index_size, room = 0;
    unsigned char *shard = NULL, *index = malloc(index_size);
    int bad = index ? 0 : -1, stored = 0;
    for (int64_t n = 0; n < c->inner_count && !bad; n++) {
        int64_t rest = n, count[MAX_AXES];
        const unsigned char *part = from, *data = NULL;
        size_t size = 0;
        int inside = 1, full = 1;
        for (int i = c->ndim - 1; i >= 0; i--) {
            int64_t start = rest % c->counts[i] * k->shape[i], left = row->count[i] - start;
            rest /= c->counts[i];
            count[i] = left < k->shape[i] ? left : k->shape[i];
            inside &= left > 0;
            full &= count[i] == k->shape[i];
            part += start * b->strides[i];
        }
        if (inside) {
            if (buffer_reserve(&s->work, k->nbytes ? (size_t)k->nbytes : 1)) { bad = -1; break; }
            if (!full) put_fill(k, s->work.data);
            copy_box(k->ndim, count, k->itemsize, part, b->strides, s->work.data, k->strides);
            bad = encode(k, s, s->work.data, &data, &size);
        } else if (c->keep_empty) {
            if (buffer_reserve(&s->work, k->nbytes ? (size_t)k->nbytes : 1)) { bad = -1; break; }
            put_fill(k, s->work.data);
            bad = encode(k, s, s->work.data, &data, &size);
        }
        if (bad) break;
        put_index(c, index + 16 * n, data ? used : MISSING);
        put_index(c, index + 16 * n + 8, data ? size : MISSING);
        if (!data) continue;
        stored = 1;
        if (used + size + index_size > room) {
            room = 2 * (used + size + index_size);
            unsigned char *more = realloc(shard, room);
            if (!more) { bad = -1; break; }
            shard = more;
        }
        memcpy(shard + used, data, size);
        used += size;
    }
    if (!bad && stored) {
        if (c->index_crc) {
            uint32_t sum = crc32c(index, index_size - 4);
            for (int i = 0; i < 4; i++)
                index[index_size - 4 + (size_t)i] = (unsigned char)(sum >> (8 * i));
        }
        memcpy(c->index_at_end ? shard + used : shard, index, index_size);
        bad = store(b, row, shard, c->index_at_end ? used + index_size : used);
    } else if (!bad) {
        bad = store(b, row, NULL, 0);
    }
    free(shard);
    free(index);
    return bad;
}

int write_row(const batch_t *b, scratch_t *s, int64_t number) {
    const chain_t *c = b->chain;
    row_t row;
    row_at(b, number, &row);
    const unsigned char *from = b->array, *result = NULL;
    for (int i = 0; i < c->ndim; i++) from += row.outer[i] * b->strides[i];
    if (c->inner) return row.whole ? write_shard(b, s, &row, from) : -1;
    unsigned char *data;
    size_t size = 0;
    if (gather(b, s, c, &row, number, from, &data)) return -1;
    if (encode(c, s, data, &result, &size)) return -1;
    return store(b, &row, result, size);
}

void work(batch_t *b) {
    scratch_t scratch;
    memset(&scratch, 0, sizeof scratch);
    int64_t total = b->rows * b->slices;
    for (;;) {
        int64_t n = atomic_fetch_add(&b->next, 1);
        if (n >= total) break;
        int64_t row = n / b->slices;
        int bad = b->writing ? write_row(b, &scratch, row)
                             : read_row(b, &scratch, row, n % b->slices);
        if (bad) b->failed[row] = 1;
    }
    scratch_free(&scratch);
}
