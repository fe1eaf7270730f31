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

typedef struct {
    const unsigned char *data; /* NULL: in a buffer that may still move, from `offset` on */
    size_t size, offset;
} part_t;

static int write_all(int file, const unsigned char *data, size_t size) {
    while (size) {
        ssize_t done = write(file, data, size);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return -1;
        data += done, size -= (size_t)done;
    }
    return 0;
}

/* The parts one after the other, under a name of its own, then renamed: readers see the old value
 * or the new one. No parts: the key is removed. */
static int store(const batch_t *b, const row_t *row, const part_t *parts, int64_t count) {
    char key[PATH_MAX], partial[PATH_MAX];
    if (row_key(b, row, key)) return -1;
    if (!count) return unlinkat(b->directory, key, 0) != 0 && errno != ENOENT && errno != ENOTDIR;
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
    for (int64_t i = 0; i < count && !bad; i++) bad = write_all(file, parts[i].data, parts[i].size);
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
        steps[i] = b->points.coords ? 1 : b->axes[i].step;
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
    if (b->picks) move_picks(b, row, target, to, 1);
    else copy_box(c->ndim, row->count, c->itemsize, from, b->strides, target, to);
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

/* The old value of a shard, with its index checked; `data` is NULL where there is none. */
typedef struct {
    unsigned char *data;
    int64_t size;
    const unsigned char *index;
} shard_t;

static int load_shard(const batch_t *b, const row_t *row, int64_t number, shard_t *old) {
    const chain_t *c = b->chain;
    int64_t index_size = 16 * c->inner_count + (c->index_crc ? 4 : 0);
    source_t source;
    int state = open_source(b, row, number, &source), bad = state < 0 ? -1 : 0;
    old->data = NULL;
    if (state == 0) {
        old->size = source.size;
        old->data = source.size < index_size ? NULL : malloc((size_t)source.size);
        bad = old->data ? read_exactly(source.file, old->data, (size_t)source.size, 0) : -1;
    }
    close_source(&source);
    if (bad || !old->data) return bad;
    old->index = c->index_at_end ? old->data + old->size - index_size : old->data;
    if (c->index_crc && get32(old->index + index_size - 4) !=
                            crc32c(old->index, (size_t)index_size - 4))
        return -1;
    for (int64_t n = 0; n < c->inner_count; n++) {
        uint64_t offset = index_entry(c, old->index + 16 * n);
        uint64_t size = index_entry(c, old->index + 16 * n + 8);
        if (offset == MISSING && size == MISSING) continue;
        if (offset > (uint64_t)old->size || size > (uint64_t)old->size - offset) return -1;
    }
    return 0;
}

/* The decoded bytes of an inner chunk in `s->work`, from its old value and the array's part. */
static int change_inner(const batch_t *b, scratch_t *s, const unsigned char *old, size_t old_size,
                        const int64_t *inner, const int64_t *count, const unsigned char *part) {
    const chain_t *k = b->chain->inner;
    int64_t to[MAX_AXES];
    int full = 1;
    for (int i = 0; i < k->ndim; i++) {
        to[i] = k->strides[i] * b->axes[i].step;
        full &= count[i] == k->shape[i];
    }
    if (buffer_reserve(&s->work, k->nbytes ? (size_t)k->nbytes : 1)) return -1;
    unsigned char *target = s->work.data;
    if (!full && old) {
        const unsigned char *found;
        if (decode_steps(k, s, old, old_size, target, &found)) return -1;
        if (found != target) memcpy(target, found, (size_t)k->nbytes);
        if (k->swap) swap_bytes(target, k->nbytes, k->swap);
    } else if (!full) {
        put_fill(k, target);
    }
    for (int i = 0; i < k->ndim; i++) target += inner[i] * k->strides[i];
    copy_box(k->ndim, count, k->itemsize, part, b->strides, target, to);
    return 0;
}

/* Adds bytes to a shard; a part that follows the last one in memory makes it longer. */
static void add_part(part_t *parts, int64_t *count, part_t part) {
    part_t *last = *count ? &parts[*count - 1] : NULL;
    int follows = last && (part.data ? last->data && last->data + last->size == part.data
                                     : !last->data && last->offset + last->size == part.offset);
    if (follows) last->size += part.size;
    else parts[(*count)++] = part;
}

/* The encoded bytes of inner chunk `n`: new where the row touches it, else the old ones. */
static int inner_value(const batch_t *b, scratch_t *s, const row_t *row, const shard_t *old,
                       const unsigned char *from, int64_t n, part_t *value, int *is_new) {
    const chain_t *c = b->chain, *k = c->inner;
    int64_t rest = n, inner[MAX_AXES], count[MAX_AXES], outer = 0;
    uint64_t offset = old->data ? index_entry(c, old->index + 16 * n) : MISSING;
    *value = (part_t){NULL, 0, 0};
    if (offset != MISSING) {
        value->data = old->data + offset;
        value->size = (size_t)index_entry(c, old->index + 16 * n + 8);
    }
    *is_new = 1;
    for (int i = c->ndim - 1; i >= 0 && *is_new; i--) {
        int64_t low = rest % c->counts[i] * k->shape[i];
        rest /= c->counts[i];
        *is_new = clip(row->inner[i], row->count[i], b->axes[i].step, low, low + k->shape[i],
                       &inner[i], &outer, &count[i]);
        if (*is_new) from += outer * b->strides[i];
    }
    if (!*is_new) return 0;
    if (change_inner(b, s, value->data, value->size, inner, count, from)) return -1;
    return encode(k, s, s->work.data, &value->data, &value->size);
}

/* A new shard: inner chunks that the row touches are encoded, others keep their bytes. */
static int write_shard(const batch_t *b, scratch_t *s, const row_t *row, const shard_t *old,
                       const unsigned char *from) {
    const chain_t *c = b->chain;
    size_t index_size = 16 * (size_t)c->inner_count + (c->index_crc ? 4 : 0);
    size_t at = c->index_at_end ? 0 : index_size;
    unsigned char *index = malloc(index_size);
    part_t *parts = malloc(((size_t)c->inner_count + 2) * sizeof *parts);
    buffer_t fresh = {NULL, 0}; /* new inner chunks, one after the other */
    size_t used = 0;
    int64_t count = 0;
    int bad = index && parts ? 0 : -1, stored = 0;
    if (!bad && !c->index_at_end) add_part(parts, &count, (part_t){index, index_size, 0});
    for (int64_t n = 0; n < c->inner_count && !bad; n++) {
        part_t value;
        int is_new;
        bad = inner_value(b, s, row, old, from, n, &value, &is_new);
        if (bad) break;
        put_index(c, index + 16 * n, value.data ? at : MISSING);
        put_index(c, index + 16 * n + 8, value.data ? value.size : MISSING);
        if (!value.data) continue;
        stored = 1;
        at += value.size;
        if (is_new) {
            if (used + value.size > fresh.size) {
                size_t room = 2 * (used + value.size);
                unsigned char *more = realloc(fresh.data, room);
                if (!more) { bad = -1; break; }
                fresh.data = more, fresh.size = room;
            }
            memcpy(fresh.data + used, value.data, value.size);
            value = (part_t){NULL, value.size, used};
            used += value.size;
        }
        add_part(parts, &count, value);
    }
    if (!bad) {
        if (c->index_crc) put32(index + index_size - 4, crc32c(index, index_size - 4));
        for (int64_t i = 0; i < count; i++)
            if (!parts[i].data) parts[i].data = fresh.data + parts[i].offset;
        if (c->index_at_end) add_part(parts, &count, (part_t){index, index_size, 0});
        bad = store(b, row, parts, stored ? count : 0);
    }
    free(fresh.data);
    free(parts);
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
    for (int i = 0; i < c->ndim && !b->picks; i++) from += row.outer[i] * b->strides[i];
    if (c->inner && b->picks) return -1; /* the box around them would take the whole shard */
    if (c->inner) {
        shard_t old = {NULL, 0, NULL};
        int bad = is_plain(b, &row) ? 0 : load_shard(b, &row, number, &old);
        if (!bad) bad = write_shard(b, s, &row, &old, from);
        free(old.data);
        return bad;
    }
    unsigned char *data;
    size_t size = 0;
    if (gather(b, s, c, &row, number, from, &data)) return -1;
    if (encode(c, s, data, &result, &size)) return -1;
    part_t whole = {result, size, 0};
    return store(b, &row, &whole, result != NULL);
}
