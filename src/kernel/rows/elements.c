#include "rows/elements.h"

#include <stdlib.h>
#include <string.h>

static inline void copy_item(unsigned char *to, const unsigned char *from, int64_t size) {
    switch (size) {
    case 1: *to = *from; return;
    case 2: memcpy(to, from, 2); return;
    case 4: memcpy(to, from, 4); return;
    case 8: memcpy(to, from, 8); return;
    default: memcpy(to, from, (size_t)size);
    }
}

/* Copy one item to the box if `storing`, else to the array. */
static inline void exchange_item(unsigned char *inner, unsigned char *outer, int64_t size,
                                 int storing) {
    if (storing) copy_item(inner, outer, size);
    else copy_item(outer, inner, size);
}

/* Return the position of element `n` along an axis in the box, and in the array. */
static inline int64_t in_box(const oz_axis *a, const oz_row *row, int i, int64_t n) {
    return a->inner_at ? a->inner_at[a->begin[row->part[i]] + n] - row->inner[i] : n;
}

static inline int64_t in_array(const oz_axis *a, const oz_row *row, int i, int64_t n) {
    return a->inner_at ? a->outer_at[a->begin[row->part[i]] + n] : row->outer[i] + n;
}

/* Return the number of elements along an axis. */
static int64_t positions(const oz_axis *a, const oz_row *row, int i) {
    int64_t k = row->part[i];
    return a->inner_at ? a->begin[k + 1] - a->begin[k] : row->count[i];
}

static void copy_lists(const oz_batch *batch, const oz_row *row, unsigned char *box,
                       const int64_t *strides, int storing) {
    int ndim = batch->pipeline->ndim, last = ndim - 1;
    int64_t at[OZ_MAX_AXES] = {0}, item = batch->pipeline->itemsize;
    const oz_axis *line = &batch->axes[last];
    int64_t length = positions(line, row, last);
    for (;;) {
        unsigned char *in = box, *out = batch->array;
        for (int i = 0; i < last; i++) {
            in += in_box(&batch->axes[i], row, i, at[i]) * strides[i];
            out += in_array(&batch->axes[i], row, i, at[i]) * batch->strides[i];
        }
        for (int64_t n = 0; n < length; n++)
            exchange_item(in + in_box(line, row, last, n) * strides[last],
                          out + in_array(line, row, last, n) * batch->strides[last], item, storing);
        int i = last - 1;
        for (; i >= 0; i--) {
            if (++at[i] < positions(&batch->axes[i], row, i)) break;
            at[i] = 0;
        }
        if (i < 0) return;
    }
}

static void copy_points(const oz_batch *batch, const oz_row *row, unsigned char *box,
                        const int64_t *strides, int storing) {
    const oz_points *p = &batch->points;
    int64_t item = batch->pipeline->itemsize;
    for (int64_t n = p->begin[row->part[0]]; n < p->begin[row->part[0] + 1]; n++) {
        unsigned char *in = box;
        for (int i = 0; i < batch->pipeline->ndim; i++)
            in += (p->inner[i * p->count + n] - row->inner[i]) * strides[i];
        exchange_item(in, batch->array + p->outer[n] * batch->strides[0], item, storing);
    }
}

void oz_copy_elements(const oz_batch *batch, const oz_row *row, unsigned char *box,
                      const int64_t *strides, int storing) {
    if (batch->points.coords) copy_points(batch, row, box, strides, storing);
    else copy_lists(batch, row, box, strides, storing);
}

void oz_copy_point(const oz_batch *batch, int64_t n, const unsigned char *box, const int64_t *start,
                   const int64_t *strides) {
    const oz_points *p = &batch->points;
    for (int i = 0; i < batch->pipeline->ndim; i++)
        box += (p->inner[i * p->count + n] - start[i]) * strides[i];
    copy_item(batch->array + p->outer[n] * batch->strides[0], box, batch->pipeline->itemsize);
}

/* Return the inner chunk of a point, counted in those that a row touches. */
static int64_t inner_of_point(const oz_batch *batch, int64_t n, const oz_inner_box *touched) {
    const oz_points *p = &batch->points;
    int64_t at = 0;
    for (int i = 0; i < batch->pipeline->ndim; i++) {
        int64_t size = batch->pipeline->inner->shape[i];
        at = at * touched->count[i] + p->inner[i * p->count + n] / size - touched->first[i];
    }
    return at;
}

int64_t *oz_sort_points(const oz_batch *batch, const oz_row *row, const oz_inner_box *touched) {
    int64_t first = batch->points.begin[row->part[0]], last = batch->points.begin[row->part[0] + 1];
    int64_t total = touched->total, begin = 0;
    int64_t *ends = calloc((size_t)(total + last - first), sizeof *ends); /* owned by the caller */
    if (!ends) return NULL;
    for (int64_t n = first; n < last; n++) ends[inner_of_point(batch, n, touched)]++;
    for (int64_t k = 0; k < total; k++) {
        int64_t count = ends[k];
        ends[k] = begin, begin += count;
    }
    for (int64_t n = first; n < last; n++)
        ends[total + ends[inner_of_point(batch, n, touched)]++] = n;
    return ends;
}

/* An inner chunk has elements if every axis has a position in it. */
static oz_status mark_lists(const oz_batch *batch, const oz_row *row, const oz_inner_box *touched,
                            unsigned char *marks) {
    memset(marks, 1, (size_t)touched->total);
    int64_t below = 1; /* inner chunks of one step along the axis */
    for (int i = batch->pipeline->ndim - 1; i >= 0; below *= touched->count[i--]) {
        const oz_axis *a = &batch->axes[i];
        int64_t count = touched->count[i], size = batch->pipeline->inner->shape[i];
        if (!a->inner_at) continue;
        unsigned char *used = calloc((size_t)count, 1); /* owned: freed below */
        if (!used) return OZ_NO_MEMORY;
        for (int64_t n = positions(a, row, i) - 1; n >= 0; n--)
            used[(in_box(a, row, i, n) + row->inner[i]) / size - touched->first[i]] = 1;
        for (int64_t n = 0; n < touched->total; n++) marks[n] &= used[n / below % count];
        free(used);
    }
    return OZ_OK;
}

unsigned char *oz_mark_inner(const oz_batch *batch, const oz_row *row,
                             const oz_inner_box *touched) {
    unsigned char *marks = calloc((size_t)touched->total, 1); /* owned by the caller */
    if (!marks) return NULL;
    if (mark_lists(batch, row, touched, marks)) {
        free(marks);
        return NULL;
    }
    return marks;
}
