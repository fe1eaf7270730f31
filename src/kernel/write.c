/* Writing one chunk, or one shard, after the other. */
#include "rows.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
            put32(index + index_size - 4, crc32c(index, index_size - 4));
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

/* Whether a row replaces all that its shard has of the array, from the first element on. */
static int is_plain(const batch_t *b, const row_t *row) {
    for (int i = 0; i < b->chain->ndim; i++)
        if (row->inner[i] != 0 || (b->axes[i].step != 1 && row->count[i] != 1)) return 0;
    return row->whole;
}

int write_row(const batch_t *b, scratch_t *s, int64_t number) {
    const chain_t *c = b->chain;
    row_t row;
    row_at(b, number, &row);
    const unsigned char *from = b->array, *result = NULL;
    for (int i = 0; i < c->ndim; i++) from += row.outer[i] * b->strides[i];
    if (c->inner) return is_plain(b, &row) ? write_shard(b, s, &row, from) : -1;
    unsigned char *data;
    size_t size = 0;
    if (gather(b, s, c, &row, number, from, &data)) return -1;
    if (encode(c, s, data, &result, &size)) return -1;
    return store(b, &row, result, size);
}
