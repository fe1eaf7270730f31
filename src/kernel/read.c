/* Reading one chunk, or one shard, after the other. */
#include "rows.h"

#define GAP 8192         /* bytes that take about as long to read as another call does */
#define MAX_BOX (64 << 20) /* around single elements */

#include <stdlib.h>
#include <string.h>

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

/* The bytes of a decoded chunk from the first to the last element of a box. */
static void span(const chain_t *c, const int64_t *inner, const int64_t *count,
                 const int64_t *steps, int64_t *first, int64_t *end) {
    *first = 0;
    *end = c->itemsize;
    for (int i = 0; i < c->ndim; i++) {
        *first += inner[i] * c->strides[i];
        *end += (inner[i] + (count[i] - 1) * steps[i]) * c->strides[i];
    }
}

/* Whether a box spans less than half of its chunk, so that decoding in part pays. */
static int is_small(const chain_t *c, const row_t *row, const int64_t *steps) {
    int64_t first, end;
    span(c, row->inner, row->count, steps, &first, &end);
    return 2 * (end - first) < c->nbytes;
}

/* Copies a box out of decoded bytes that begin with its first element. */
static void place_span(const chain_t *c, const unsigned char *found, const int64_t *count,
                       const int64_t *steps, unsigned char *target, const int64_t *strides) {
    int64_t from[MAX_AXES];
    for (int i = 0; i < c->ndim; i++) from[i] = c->strides[i] * steps[i];
    copy_box(c->ndim, count, c->itemsize, found, from, target, strides);
}

/* Part of a Blosc buffer, a few planes at a time where blocks are whole planes or planes whole
 * blocks: then what was decoded is still in the cache when it is copied. */
static int place_blosc(const chain_t *c, scratch_t *s, source_t *source, const int64_t *inner,
                       const int64_t *count, const int64_t *steps, unsigned char *target,
                       const int64_t *strides) {
    int64_t block = blosc1_block(s, source), start[MAX_AXES], part[MAX_AXES];
    int axis = c->ndim ? (int)c->perm[0] : 0;
    int64_t all = c->ndim ? count[axis] : 1, plane = c->ndim ? c->strides[axis] : c->nbytes;
    int fits = c->ndim && block > 0 && (block % plane == 0 || plane % block == 0);
    memcpy(start, inner, sizeof *start * (size_t)c->ndim);
    memcpy(part, count, sizeof *part * (size_t)c->ndim);
    for (int64_t n = 0, next; n < all; n = next) {
        next = all;
        if (fits) { /* up to the end of the block that the plane is in */
            start[axis] = inner[axis] + n * steps[axis];
            int64_t beyond = block > plane ? (start[axis] * plane / block + 1) * (block / plane)
                                           : start[axis] + 1;
            next = n + (beyond - start[axis] + steps[axis] - 1) / steps[axis];
            if (next > all) next = all;
            part[axis] = next - n;
        }
        int64_t first, end;
        span(c, start, part, steps, &first, &end);
        if (buffer_reserve(&s->work, (size_t)(end - first))) return -1;
        if (blosc1_decode(s, source, c->nbytes, first, end, s->work.data)) return -1;
        if (c->swap) swap_bytes(s->work.data, end - first, c->swap);
        place_span(c, s->work.data, part, steps, c->ndim ? target + n * strides[axis] : target,
                   strides);
    }
    return 0;
}

/* Decodes one chunk and copies a box of it into the target. */
static int place(const chain_t *c, scratch_t *s, const unsigned char *data, size_t size,
                 const int64_t *inner, const int64_t *count, const int64_t *steps,
                 unsigned char *target, const int64_t *strides) {
    int direct = same_run(c, count, steps, strides);
    const unsigned char *found;
    if (!direct && blosc_only(c)) {
        if (check_sums(c, data, &size)) return -1;
        source_t source = {.file = -1, .data = data, .size = (int64_t)size};
        return place_blosc(c, s, &source, inner, count, steps, target, strides);
    }
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
    int64_t first, end;
    span(c, inner, count, steps, &first, &end);
    place_span(c, found + first, count, steps, target, strides);
    return 0;
}

/* Part of a chunk without codecs: only the bytes around the box are read. */
static int place_raw(const chain_t *c, scratch_t *s, source_t *source, const row_t *row,
                     const int64_t *steps, unsigned char *target, const int64_t *strides) {
    int64_t first, end;
    const unsigned char *data;
    span(c, row->inner, row->count, steps, &first, &end);
    if (fetch(source, first, end - first, &s->raw, &data)) return -1;
    if (c->swap) {
        if (buffer_reserve(&s->work, (size_t)(end - first))) return -1;
        memcpy(s->work.data, data, (size_t)(end - first));
        swap_bytes(s->work.data, end - first, c->swap);
        data = s->work.data;
    }
    place_span(c, data, row->count, steps, target, strides);
    return 0;
}

/* As `place_raw`, a few planes at a time, so that what was read is still in the cache when it is
 * copied; plane by plane where the bytes between are many. `depth` counts the stored axes. */
static int place_slabs(const chain_t *c, scratch_t *s, source_t *source, const row_t *row,
                       const int64_t *steps, unsigned char *target, const int64_t *strides,
                       int depth) {
    int64_t first, end;
    span(c, row->inner, row->count, steps, &first, &end);
    if (depth == c->ndim || end - first <= GAP)
        return place_raw(c, s, source, row, steps, target, strides);
    int axis = (int)c->perm[depth], bad = 0;
    int64_t stride = c->strides[axis] * steps[axis], all = row->count[axis];
    int64_t between = stride - (end - first - (all - 1) * stride);
    int64_t piece = between > GAP ? 1 : SLAB / stride;
    if (piece < 1) piece = 1;
    row_t part = *row;
    for (int64_t start = 0; start < all && !bad; start += piece) {
        unsigned char *to = target + start * strides[axis];
        part.inner[axis] = row->inner[axis] + start * steps[axis];
        part.count[axis] = all - start < piece ? all - start : piece;
        bad = between > GAP
                  ? place_slabs(c, s, source, &part, steps, to, strides, depth + 1)
                  : place_raw(c, s, source, &part, steps, to, strides);
    }
    return bad;
}

/* A chunk without codecs; straight into the target where both are one run. */
static int place_plain(const chain_t *c, scratch_t *s, source_t *source, const row_t *row,
                       const int64_t *steps, unsigned char *target, const int64_t *strides) {
    if (source->size != c->nbytes) return -1;
    if (source->file >= 0 && !c->swap && same_run(c, row->count, steps, strides))
        return read_exactly(source->file, target, (size_t)c->nbytes, 0);
    return place_slabs(c, s, source, row, steps, target, strides, 0);
}

static void place_fill(const chain_t *c, const int64_t *count, unsigned char *target,
                       const int64_t *strides) {
    static const int64_t none[MAX_AXES];
    copy_box(c->ndim, count, c->itemsize, c->fill, none, target, strides);
}

/* Inner chunks that a box in a shard touches, as a box of its own; how many. */
static int64_t touched_inner(const chain_t *c, const row_t *row, const int64_t *steps,
                             int64_t *low, int64_t *many) {
    int64_t total = 1;
    for (int i = 0; i < c->ndim; i++) {
        int64_t last = row->inner[i] + (row->count[i] - 1) * steps[i];
        low[i] = row->inner[i] / c->inner->shape[i];
        many[i] = last / c->inner->shape[i] - low[i] + 1;
        total *= many[i];
    }
    return total;
}

static int read_shard(const batch_t *b, scratch_t *s, source_t *source, const row_t *row,
                      const int64_t *steps, unsigned char *target, const int64_t *strides,
                      int64_t slice) {
    const chain_t *c = b->chain, *k = c->inner;
    int64_t index_size = 16 * c->inner_count + (c->index_crc ? 4 : 0);
    const unsigned char *data, *index;
    if (source->size < index_size) return -1;
    if (fetch(source, c->index_at_end ? source->size - index_size : 0, index_size, &s->raw, &data))
        return -1;
    if (c->index_crc) {
        uint32_t sum = crc32c(data, (size_t)index_size - 4);
        if (get32(data + index_size - 4) != sum) return -1;
    }
    unsigned char *own = malloc((size_t)index_size);
    if (!own) return -1;
    memcpy(own, data, (size_t)index_size);
    index = own;
    int64_t low[MAX_AXES], many[MAX_AXES], total = touched_inner(c, row, steps, low, many);
    int64_t begin = total * slice / b->slices, end = total * (slice + 1) / b->slices;
    unsigned char *wanted = b->picks ? wanted_inner(b, row, low, many, total) : NULL;
    int bad = b->picks && !wanted;
    for (int64_t n = begin; n < end && !bad; n++) {
        if (wanted && !wanted[n]) continue;
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
            to += outer * strides[i];
        }
        if (!touched) continue;
        uint64_t offset = index_entry(c, index + 16 * entry);
        uint64_t size = index_entry(c, index + 16 * entry + 8);
        if (offset == MISSING && size == MISSING) {
            if (b->leave_absent) bad = 1;
            else place_fill(k, count, to, strides);
        } else if (offset > INT64_MAX || size > INT64_MAX ||
                   fetch(source, (int64_t)offset, (int64_t)size, &s->raw, &data)) {
            bad = 1;
        } else {
            bad = place(k, s, data, (size_t)size, inner, count, steps, to, strides);
        }
    }
    free(wanted);
    free(own);
    return bad ? -1 : 0;
}

/* Whether threads that share a row have found different files under its key. */
static int replaced(const batch_t *b, int64_t number, uint64_t identity) {
    unsigned long long first = 0;
    if (!b->seen || atomic_compare_exchange_strong(&b->seen[number], &first, identity)) return 0;
    return first != identity;
}

/* The box of one row. */
static int read_box(const batch_t *b, scratch_t *s, source_t *source, const row_t *row,
                    const int64_t *steps, unsigned char *target, const int64_t *strides,
                    int64_t slice) {
    const chain_t *c = b->chain;
    const unsigned char *data;
    if (c->inner) return read_shard(b, s, source, row, steps, target, strides, slice);
    if (c->nsteps == 0) return place_plain(c, s, source, row, steps, target, strides);
    if (source->file >= 0 && c->nsteps == 1 && blosc_only(c) && is_small(c, row, steps))
        return place_blosc(c, s, source, row->inner, row->count, steps, target, strides);
    if (fetch(source, 0, source->size, &s->raw, &data)) return -1;
    return place(c, s, data, (size_t)source->size, row->inner, row->count, steps, target, strides);
}

/* Single elements of one chunk: the box around them, then what is wanted of it. */
static int read_picks(const batch_t *b, scratch_t *s, source_t *source, row_t *row,
                      const int64_t *steps, int absent) {
    const chain_t *c = b->chain;
    int64_t strides[MAX_AXES], size = c->itemsize;
    int plain = !absent && !c->inner && c->nsteps && !is_small(c, row, steps);
    for (int i = 0; i < c->ndim; i++) plain &= steps[i] == 1 && c->perm[i] == i;
    for (int i = c->ndim - 1; i >= 0; i--) {
        int listed = b->points.coords || b->axes[i].at;
        if (plain && listed) row->inner[i] = 0, row->count[i] = c->shape[i];
        strides[i] = size;
        size *= row->count[i]; /* at most that of the chunk */
    }
    if (size > MAX_BOX || buffer_reserve(&s->box, (size_t)size)) return -1;
    if (absent) place_fill(c, row->count, s->box.data, strides);
    else if (read_box(b, s, source, row, steps, s->box.data, strides, 0)) return -1;
    move_picks(b, row, s->box.data, strides, 0);
    return 0;
}

/* How many times as long a byte takes as one that is copied or that LZ4 handles, roughly. */
static int64_t weight(const chain_t *c, int writing) {
    int64_t most = 1;
    for (int i = 0; i < c->nsteps; i++) {
        const step_t *step = &c->steps[i];
        int packs = step->kind == STEP_BLOSC && step->name != BLOSC_NAME_LZ4 &&
                    step->name != BLOSC_NAME_SNAPPY;
        int64_t one = step->kind == STEP_GZIP || step->kind == STEP_ZLIB ? 4
                      : step->kind == STEP_ZSTD || packs                 ? 2
                                                                         : 1;
        if (one > 1 && writing) one *= 4;
        if (one > most) most = one;
    }
    return most;
}

int64_t row_effort(const batch_t *b, const row_t *row) {
    const chain_t *c = b->chain, *k = c->inner ? c->inner : c;
    int64_t first, end, steps[MAX_AXES], box = c->itemsize;
    for (int i = 0; i < c->ndim; i++) {
        steps[i] = b->points.coords ? 1 : b->axes[i].step;
        int64_t touched = (row->count[i] - 1) * steps[i] / k->shape[i] + 1;
        box *= c->inner ? touched * k->shape[i] : row->count[i];
    }
    int64_t times = weight(k, b->writing);
    if (c->inner || (k->nsteps == 0 && !b->writing)) return times * box;
    if (b->writing) return times * c->nbytes;
    span(c, row->inner, row->count, steps, &first, &end);
    return times * (blosc_only(c) ? end - first : c->nbytes);
}

int read_row(const batch_t *b, scratch_t *s, int64_t number, int64_t slice) {
    const chain_t *c = b->chain;
    int64_t steps[MAX_AXES];
    row_t row;
    source_t source;
    row_at(b, number, &row);
    unsigned char *target = b->array;
    for (int i = 0; i < c->ndim; i++) {
        if (!b->picks) target += row.outer[i] * b->strides[i];
        steps[i] = b->points.coords ? 1 : b->axes[i].step;
    }
    if (b->slices > 1) { /* nothing is opened for a slice without an inner chunk; the last has one */
        int64_t low[MAX_AXES], many[MAX_AXES], total = touched_inner(c, &row, steps, low, many);
        if (total * slice / b->slices == total * (slice + 1) / b->slices) return 0;
    }
    int state = open_source(b, &row, number, &source);
    int bad = state < 0 || replaced(b, number, source.identity) ? -1 : 0;
    if (state == ABSENT && b->leave_absent) bad = -1;
    if (bad) {
        /* done again by the reference engine */
    } else if (b->picks) {
        bad = read_picks(b, s, &source, &row, steps, state == ABSENT);
    } else if (state == ABSENT) {
        if (slice == b->slices - 1) place_fill(c, row.count, target, b->strides);
    } else {
        bad = read_box(b, s, &source, &row, steps, target, b->strides, slice);
    }
    close_source(&source);
    return bad;
}
