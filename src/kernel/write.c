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
    if (!c->keep_empty && is_fill(c, data)) {
        *result = NULL;
        return 0;
    }
    if (c->swap) swap_bytes(data, c->nbytes, c->swap);
    return encode_steps(c, s, data, result, size);
}

int write_row(const batch_t *b, scratch_t *s, int64_t number, int64_t slice) {
    row_t row;
    row_at(b, number, &row);
    if (b->chain->inner) return write_shard(b, s, &row, number, slice);
    const unsigned char *from = b->array, *result = NULL;
    for (int i = 0; i < b->chain->ndim && !b->picks; i++) from += row.outer[i] * b->strides[i];
    unsigned char *data;
    size_t size = 0;
    sink_t sink;
    if (gather(b, s, b->chain, &row, number, from, &data)) return -1;
    if (encode(b->chain, s, data, &result, &size)) return -1;
    sink_start(&sink, &row, number);
    int bad = result ? sink_write(b, &sink, result, size, 0) : 0;
    return sink_finish(b, &sink, bad);
}
