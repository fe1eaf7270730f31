/* Writing one chunk after the other. */
#include "rows.h"

#include <string.h>

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

int encode(const chain_t *c, scratch_t *s, unsigned char *data,
           const unsigned char **result, size_t *size) {
    if (!c->keep_empty && is_fill(c, data, c->nbytes)) {
        *result = NULL;
        return 0;
    }
    if (c->swap) swap_bytes(data, c->nbytes, c->swap);
    return encode_steps(c, s, 0, data, (size_t)c->nbytes, result, size);
}

/* How many planes of a chunk go into one block of Blosc or one piece of a file; 0 where they do not,
 * or a chunk is not larger than that, or not filled by a box of the array. */
static int64_t planes_of(const batch_t *b, const row_t *row) {
    const chain_t *c = b->chain;
    if (b->picks || !row->whole || c->nbytes <= SLAB) return 0;
    for (int i = 0; i < c->ndim; i++)
        if (row->count[i] != c->shape[i]) return 0;
    int64_t plane = c->strides[c->perm[0]];
    if (c->nsteps == 0) return b->stored ? 0 : plane < SLAB ? SLAB / plane : 1;
    if (c->steps[0].kind != STEP_BLOSC || c->nbytes > INT32_MAX - 16) return 0;
    int64_t block = (int64_t)blosc1_encoded_block(&c->steps[0], (size_t)c->nbytes);
    return block % plane ? 0 : block / plane;
}

/* Some planes of a chunk, one after the other in `s->work`; how many bytes. */
static int64_t gather_planes(const batch_t *b, scratch_t *s, const row_t *row, int64_t first,
                             int64_t planes, const unsigned char *from) {
    const chain_t *c = b->chain;
    int axis = (int)c->perm[0];
    int64_t count[MAX_AXES];
    memcpy(count, row->count, sizeof count);
    count[axis] = planes < count[axis] - first ? planes : count[axis] - first;
    copy_box(c->ndim, count, c->itemsize, from + first * b->strides[axis], b->strides,
             s->work.data, c->strides);
    return count[axis] * c->strides[axis];
}

/* Whether a chunk is stored: it is looked through up to planes that are not all fill value. */
static int is_wanted(const batch_t *b, scratch_t *s, const row_t *row, int64_t planes,
                     const unsigned char *from) {
    const chain_t *c = b->chain;
    int wanted = c->keep_empty;
    for (int64_t n = 0; n < c->shape[c->perm[0]] && !wanted; n += planes) {
        int64_t size = gather_planes(b, s, row, n, planes, from);
        wanted = !is_fill(c, s->work.data, size);
    }
    return wanted;
}

/* Planes for Blosc, which are still in the cache when it takes them. */
typedef struct {
    blocks_t blocks;
    const batch_t *b;
    scratch_t *s;
    const row_t *row;
    const unsigned char *from;
} planes_t;

static const unsigned char *get_planes(blocks_t *blocks, size_t at, size_t size) {
    const planes_t *p = (const planes_t *)blocks;
    const chain_t *c = p->b->chain;
    int64_t plane = c->strides[c->perm[0]];
    gather_planes(p->b, p->s, p->row, (int64_t)at / plane, (int64_t)size / plane, p->from);
    if (c->swap) swap_bytes(p->s->work.data, (int64_t)size, c->swap);
    return p->s->work.data;
}

/* As `encode`, of a chunk that Blosc gets a few planes at a time; 1 where it does not get smaller. */
static int encode_planes(const batch_t *b, scratch_t *s, const row_t *row, int64_t planes,
                         const unsigned char *from, const unsigned char **result, size_t *size) {
    const chain_t *c = b->chain;
    size_t n = (size_t)c->nbytes, got;
    planes_t all = {{get_planes}, b, s, row, from};
    if (buffer_reserve(&s->work, (size_t)(planes * c->strides[c->perm[0]]))) return -1;
    if (!is_wanted(b, s, row, planes, from)) return 0;
    if (buffer_reserve(&s->out, n + 16 + 4 * MAX_STEPS)) return -1;
    int state = blosc1_encode_blocks(&c->steps[0], s, &all.blocks, n, s->out.data, &got);
    return state ? state : encode_steps(c, s, 1, s->out.data, got, result, size);
}

/* Writes a chunk a few planes at a time, which are still in the cache when the system takes them. */
static int write_slabs(batch_t *b, scratch_t *s, const row_t *row, int64_t number, int64_t planes,
                       const unsigned char *from) {
    const chain_t *c = b->chain;
    int64_t plane = c->strides[c->perm[0]], all = c->shape[c->perm[0]], done = 0;
    int bad = buffer_reserve(&s->work, (size_t)(planes * plane));
    sink_t sink;
    if (bad) return -1;
    int wanted = is_wanted(b, s, row, planes, from);
    sink_start(&sink, row, number);
    for (int64_t n = 0; n < all && wanted && !bad; n += planes) {
        int64_t size = gather_planes(b, s, row, n, planes, from);
        if (c->swap) swap_bytes(s->work.data, size, c->swap);
        bad = sink_write(b, &sink, s->work.data, (size_t)size, (size_t)done);
        done += size;
    }
    return sink_finish(b, &sink, bad);
}

int write_row(batch_t *b, scratch_t *s, int64_t number, int64_t slice) {
    row_t row;
    row_at(b, number, &row);
    if (b->chain->inner) return write_shard(b, s, &row, number, slice);
    const unsigned char *from = b->array, *result = NULL;
    for (int i = 0; i < b->chain->ndim && !b->picks; i++) from += row.outer[i] * b->strides[i];
    int64_t planes = planes_of(b, &row);
    if (planes && b->chain->nsteps == 0) return write_slabs(b, s, &row, number, planes, from);
    unsigned char *data;
    size_t size = 0;
    sink_t sink;
    int state = planes ? encode_planes(b, s, &row, planes, from, &result, &size) : 1;
    if (state < 0) return -1;
    if (state && gather(b, s, b->chain, &row, number, from, &data)) return -1;
    if (state && encode(b->chain, s, data, &result, &size)) return -1;
    sink_start(&sink, &row, number);
    int bad = result ? sink_write(b, &sink, result, size, 0) : 0;
    return sink_finish(b, &sink, bad);
}
