/* Writing shards. One that is written whole is cut into slices, which threads encode side by side
 * and write in order; of others the inner chunks that are not touched keep their bytes. */
#include "rows.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The encoded inner chunks of one slice, one after the other. */
typedef struct {
    unsigned char *data;
    size_t size, room;
    int finished;
} slice_t;

struct job {
    pthread_mutex_t lock;
    sink_t sink;
    unsigned char *index;
    size_t at; /* where the next slice goes */
    int64_t written, finished; /* slices */
    int bad;
    slice_t slices[];
};

/* The old value of a shard, and its index, which was checked; that is NULL where there is none. */
typedef struct {
    source_t source;
    const unsigned char *index;
} shard_t;

static size_t index_size_of(const chain_t *c) {
    return 16 * (size_t)c->inner_count + (c->index_crc ? 4 : 0);
}

static void put_index(const chain_t *c, unsigned char *p, uint64_t v) {
    for (int i = 0; i < 8; i++) p[c->index_swap ? 7 - i : i] = (unsigned char)(v >> (8 * i));
}

static int write_index(const batch_t *b, sink_t *sink, unsigned char *index, size_t at) {
    size_t size = index_size_of(b->chain);
    if (b->chain->index_crc) put32(index + size - 4, crc32c(index, size - 4));
    return sink_write(b, sink, index, size, b->chain->index_at_end ? at : 0);
}

/* Opens the old value, to be closed in any case. */
static int open_shard(const batch_t *b, scratch_t *s, const row_t *row, int64_t number,
                      shard_t *old) {
    const chain_t *c = b->chain;
    int64_t index_size = (int64_t)index_size_of(c);
    source_t *source = &old->source;
    int state = open_source(b, row, number, source);
    if (state) return state == ABSENT ? 0 : -1;
    const unsigned char *index;
    if (source->size < index_size ||
        fetch(source, c->index_at_end ? source->size - index_size : 0, index_size, &s->box, &index))
        return -1;
    if (c->index_crc && get32(index + index_size - 4) != crc32c(index, (size_t)index_size - 4))
        return -1;
    for (int64_t n = 0; n < c->inner_count; n++) {
        uint64_t offset = index_entry(c, index + 16 * n);
        uint64_t size = index_entry(c, index + 16 * n + 8);
        if (offset == MISSING && size == MISSING) continue;
        if (offset > (uint64_t)source->size || size > (uint64_t)source->size - offset) return -1;
    }
    old->index = index;
    return 0;
}

/* Where an inner chunk is in a shard: its place and size, 0 where it is not there. */
static int inner_place(const chain_t *c, const shard_t *old, int64_t n, int64_t *offset,
                       size_t *size) {
    uint64_t at = old->index ? index_entry(c, old->index + 16 * n) : MISSING;
    if (at == MISSING) return 0;
    *offset = (int64_t)at;
    *size = (size_t)index_entry(c, old->index + 16 * n + 8);
    return 1;
}

/* The decoded bytes of inner chunk `n` in `s->work`, from its old value and the array's part. */
static int change_inner(const batch_t *b, scratch_t *s, shard_t *old, int64_t n,
                        const int64_t *inner, const int64_t *count, const unsigned char *part) {
    const chain_t *k = b->chain->inner;
    int64_t to[MAX_AXES], offset;
    size_t size;
    int full = 1;
    for (int i = 0; i < k->ndim; i++) {
        to[i] = k->strides[i] * b->axes[i].step;
        full &= count[i] == k->shape[i];
    }
    if (buffer_reserve(&s->work, k->nbytes ? (size_t)k->nbytes : 1)) return -1;
    unsigned char *target = s->work.data;
    if (!full && inner_place(b->chain, old, n, &offset, &size)) {
        const unsigned char *data, *found;
        if (fetch(&old->source, offset, (int64_t)size, &s->raw, &data)) return -1;
        if (decode_steps(k, s, data, size, target, &found)) return -1;
        if (found != target) memcpy(target, found, (size_t)k->nbytes);
        if (k->swap) swap_bytes(target, k->nbytes, k->swap);
    } else if (!full) {
        put_fill(k, target);
    }
    for (int i = 0; i < k->ndim; i++) target += inner[i] * k->strides[i];
    copy_box(k->ndim, count, k->itemsize, part, b->strides, target, to);
    return 0;
}

/* The encoded bytes of inner chunk `n` where the row touches it, else `is_new` is 0. */
static int inner_value(const batch_t *b, scratch_t *s, const row_t *row, shard_t *old, int64_t n,
                       const unsigned char **value, size_t *size, int *is_new) {
    const chain_t *c = b->chain, *k = c->inner;
    const unsigned char *from = b->array;
    int64_t rest = n, inner[MAX_AXES], count[MAX_AXES], outer = 0;
    *value = NULL, *size = 0, *is_new = 1;
    for (int i = c->ndim - 1; i >= 0 && *is_new; i--) {
        int64_t low = rest % c->counts[i] * k->shape[i];
        rest /= c->counts[i];
        *is_new = clip(row->inner[i], row->count[i], b->axes[i].step, low, low + k->shape[i],
                       &inner[i], &outer, &count[i]);
        if (*is_new) from += (row->outer[i] + outer) * b->strides[i];
    }
    if (!*is_new) return 0;
    if (change_inner(b, s, old, n, inner, count, from)) return -1;
    return encode(k, s, s->work.data, value, size);
}

/* Part of a shard: what is not touched is copied in pieces as long as possible. */
static int change_shard(batch_t *b, scratch_t *s, const row_t *row, int64_t number) {
    const chain_t *c = b->chain;
    shard_t old = {.source = {.file = -1}};
    sink_t sink;
    sink_start(&sink, row, number);
    unsigned char *index = malloc(index_size_of(c));
    int bad = index ? open_shard(b, s, row, number, &old) : -1;
    size_t at = c->index_at_end ? 0 : index_size_of(c), waiting = 0;
    int64_t first = 0; /* where old bytes begin that are still to be copied */
    for (int64_t n = 0; n < c->inner_count && !bad; n++) {
        const unsigned char *value;
        size_t size;
        int64_t offset = 0;
        int is_new;
        bad = inner_value(b, s, row, &old, n, &value, &size, &is_new);
        if (bad) break;
        int there = is_new ? value != NULL : inner_place(c, &old, n, &offset, &size);
        put_index(c, index + 16 * n, there ? at : MISSING);
        put_index(c, index + 16 * n + 8, there ? size : MISSING);
        if (!there) continue;
        if (waiting && (is_new || first + (int64_t)waiting != offset)) {
            bad = sink_copy(b, &sink, &old.source, first, waiting, at - waiting);
            waiting = 0;
        }
        if (is_new) {
            if (!bad) bad = sink_write(b, &sink, value, size, at);
        } else {
            first = waiting ? first : offset, waiting += size;
        }
        at += size;
    }
    if (!bad && waiting) bad = sink_copy(b, &sink, &old.source, first, waiting, at - waiting);
    if (!bad && sink.used) bad = write_index(b, &sink, index, at);
    close_source(&old.source);
    free(index);
    return sink_finish(b, &sink, bad);
}

/* Whether a row replaces all that its shard has of the array, from the first element on. */
static int is_plain(const batch_t *b, const row_t *row) {
    for (int i = 0; i < b->chain->ndim; i++)
        if (row->inner[i] != 0 || (b->axes[i].step != 1 && row->count[i] != 1)) return 0;
    return row->whole;
}

int any_plain(const batch_t *b) {
    for (int i = 0; i < b->chain->ndim; i++) {
        const axis_t *a = &b->axes[i];
        int found = 0;
        for (int64_t k = 0; k < a->length && !found; k++)
            found = a->whole[k] && a->inner[k] == 0 && (a->step == 1 || a->count[k] == 1);
        if (!found) return 0;
    }
    return 1;
}

static void free_job(job_t *job) {
    pthread_mutex_destroy(&job->lock);
    free(job->index);
    free(job);
}

/* The job of a row, made by whoever comes first. */
static job_t *job_of(const batch_t *b, const row_t *row, int64_t number) {
    job_t *found = atomic_load(&b->jobs[number]);
    if (found) return found;
    job_t *made = calloc(1, sizeof *made + (size_t)b->slices * sizeof *made->slices);
    if (!made || !(made->index = malloc(index_size_of(b->chain)))) {
        free(made);
        return NULL;
    }
    pthread_mutex_init(&made->lock, NULL);
    sink_start(&made->sink, row, number);
    made->at = b->chain->index_at_end ? 0 : index_size_of(b->chain);
    if (atomic_compare_exchange_strong(&b->jobs[number], &found, made)) return made;
    free_job(made);
    return found;
}

static int encode_slice(const batch_t *b, scratch_t *s, const row_t *row, job_t *job,
                        int64_t number) {
    const chain_t *c = b->chain;
    shard_t none = {.source = {.file = -1}};
    slice_t *slice = &job->slices[number];
    int64_t begin = c->inner_count * number / b->slices;
    int64_t end = c->inner_count * (number + 1) / b->slices;
    for (int64_t n = begin; n < end; n++) {
        const unsigned char *value;
        size_t size;
        int is_new;
        if (inner_value(b, s, row, &none, n, &value, &size, &is_new)) return -1;
        put_index(c, job->index + 16 * n, MISSING);
        put_index(c, job->index + 16 * n + 8, value ? size : MISSING);
        if (!value) continue;
        if (slice->size + size > slice->room) {
            size_t rest = (size_t)(end - n), room = slice->size + size + rest * (size + size / 8);
            unsigned char *more = realloc(slice->data, room);
            if (!more) return -1;
            slice->data = more, slice->room = room;
        }
        memcpy(slice->data + slice->size, value, size);
        slice->size += size;
    }
    return 0;
}

/* Writes a finished slice, and gives its inner chunks their places. */
static int write_slice(const batch_t *b, job_t *job, int64_t number) {
    const chain_t *c = b->chain;
    slice_t *slice = &job->slices[number];
    int64_t begin = c->inner_count * number / b->slices;
    int64_t end = c->inner_count * (number + 1) / b->slices;
    int bad = slice->size ? sink_write(b, &job->sink, slice->data, slice->size, job->at) : 0;
    for (int64_t n = begin; n < end && !bad; n++) {
        uint64_t size = index_entry(c, job->index + 16 * n + 8);
        if (size == MISSING) continue;
        put_index(c, job->index + 16 * n, job->at);
        job->at += size;
    }
    return bad;
}

/* One slice of a whole shard. Who finishes one writes all that can be written by then. */
static int add_slice(batch_t *b, scratch_t *s, const row_t *row, int64_t number,
                     int64_t slice) {
    job_t *job = job_of(b, row, number);
    if (!job) return -1;
    int bad = encode_slice(b, s, row, job, slice);
    pthread_mutex_lock(&job->lock);
    job->bad |= bad;
    job->slices[slice].finished = 1;
    for (; job->written < b->slices && job->slices[job->written].finished; job->written++) {
        slice_t *next = &job->slices[job->written];
        if (!job->bad) job->bad = write_slice(b, job, job->written);
        free(next->data);
        next->data = NULL;
    }
    if (job->written == b->slices) {
        if (!job->bad && job->sink.used) job->bad = write_index(b, &job->sink, job->index, job->at);
        bad = sink_finish(b, &job->sink, job->bad);
        free(job->index);
        job->index = NULL;
    }
    pthread_mutex_unlock(&job->lock);
    return bad;
}

int write_shard(batch_t *b, scratch_t *s, const row_t *row, int64_t number, int64_t slice) {
    if (b->picks) return -1; /* the box around them would take the whole shard */
    if (is_plain(b, row)) return add_slice(b, s, row, number, slice);
    return slice == 0 ? change_shard(b, s, row, number) : 0;
}

void drop_job(batch_t *b, job_t *job) {
    if (!job) return;
    if (job->written < b->slices) {
        for (int64_t i = 0; i < b->slices; i++) free(job->slices[i].data);
        sink_finish(b, &job->sink, -1);
    }
    free_job(job);
}
