/* Single elements: listed positions along axes, or points. A row is the box around those of one
 * chunk; here they go from the box to the array, or the other way. */
#include "rows.h"

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

static inline void move_item(unsigned char *inside, unsigned char *outside, int64_t size,
                             int storing) {
    if (storing) copy_item(inside, outside, size);
    else copy_item(outside, inside, size);
}

/* Where element `n` of an axis is: in the box, and in the array. */
static inline int64_t inside(const axis_t *a, const row_t *row, int i, int64_t n) {
    return a->at ? a->at[a->begin[row->part[i]] + n] - row->inner[i] : n;
}

static inline int64_t outside(const axis_t *a, const row_t *row, int i, int64_t n) {
    return a->at ? a->to[a->begin[row->part[i]] + n] : row->outer[i] + n;
}

static int64_t how_many(const axis_t *a, const row_t *row, int i) {
    int64_t k = row->part[i];
    return a->at ? a->begin[k + 1] - a->begin[k] : row->count[i];
}

static void move_lists(const batch_t *b, const row_t *row, unsigned char *box,
                       const int64_t *strides, int storing) {
    int ndim = b->chain->ndim, last = ndim - 1;
    int64_t at[MAX_AXES] = {0}, item = b->chain->itemsize;
    const axis_t *line = &b->axes[last];
    int64_t length = how_many(line, row, last);
    for (;;) {
        unsigned char *in = box, *out = b->array;
        for (int i = 0; i < last; i++) {
            in += inside(&b->axes[i], row, i, at[i]) * strides[i];
            out += outside(&b->axes[i], row, i, at[i]) * b->strides[i];
        }
        for (int64_t n = 0; n < length; n++)
            move_item(in + inside(line, row, last, n) * strides[last],
                      out + outside(line, row, last, n) * b->strides[last], item, storing);
        int i = last - 1;
        for (; i >= 0; i--) {
            if (++at[i] < how_many(&b->axes[i], row, i)) break;
            at[i] = 0;
        }
        if (i < 0) return;
    }
}

static void move_points(const batch_t *b, const row_t *row, unsigned char *box,
                        const int64_t *strides, int storing) {
    const points_t *p = &b->points;
    int64_t item = b->chain->itemsize;
    for (int64_t n = p->begin[row->part[0]]; n < p->begin[row->part[0] + 1]; n++) {
        unsigned char *in = box;
        for (int i = 0; i < b->chain->ndim; i++)
            in += (p->inner[i * p->count + n] - row->inner[i]) * strides[i];
        move_item(in, b->array + p->outer[n] * b->strides[0], item, storing);
    }
}

void move_picks(const batch_t *b, const row_t *row, unsigned char *box, const int64_t *strides,
                int storing) {
    if (b->points.coords) move_points(b, row, box, strides, storing);
    else move_lists(b, row, box, strides, storing);
}

void points_at(const batch_t *b, int64_t number, row_t *row) {
    const points_t *p = &b->points;
    row->whole = 0, row->part[0] = number;
    for (int i = 0; i < b->chain->ndim; i++) {
        const int64_t *inner = p->inner + i * p->count;
        int64_t low = INT64_MAX, high = 0;
        for (int64_t n = p->begin[number]; n < p->begin[number + 1]; n++) {
            low = inner[n] < low ? inner[n] : low;
            high = inner[n] > high ? inner[n] : high;
        }
        row->coords[i] = p->coords[number * b->chain->ndim + i];
        row->inner[i] = low, row->outer[i] = 0, row->count[i] = high - low + 1;
    }
}

static void mark_points(const batch_t *b, const row_t *row, const int64_t *low,
                        const int64_t *many, unsigned char *marks) {
    const points_t *p = &b->points;
    for (int64_t n = p->begin[row->part[0]]; n < p->begin[row->part[0] + 1]; n++) {
        int64_t at = 0;
        for (int i = 0; i < b->chain->ndim; i++) {
            int64_t size = b->chain->inner->shape[i];
            at = at * many[i] + p->inner[i * p->count + n] / size - low[i];
        }
        marks[at] = 1;
    }
}

/* An inner chunk is wanted where every axis has an element in it. */
static int mark_lists(const batch_t *b, const row_t *row, const int64_t *low,
                      const int64_t *many, int64_t total, unsigned char *marks) {
    memset(marks, 1, (size_t)total);
    int64_t below = 1;
    for (int i = b->chain->ndim - 1; i >= 0; below *= many[i--]) {
        const axis_t *a = &b->axes[i];
        if (!a->at) continue;
        unsigned char *used = calloc((size_t)many[i], 1);
        if (!used) return -1;
        for (int64_t n = how_many(a, row, i) - 1; n >= 0; n--)
            used[(inside(a, row, i, n) + row->inner[i]) / b->chain->inner->shape[i] - low[i]] = 1;
        for (int64_t n = 0; n < total; n++) marks[n] &= used[n / below % many[i]];
        free(used);
    }
    return 0;
}

unsigned char *wanted_inner(const batch_t *b, const row_t *row, const int64_t *low,
                            const int64_t *many, int64_t total) {
    unsigned char *marks = calloc((size_t)total, 1);
    if (!marks) return NULL;
    if (b->points.coords) {
        mark_points(b, row, low, many, marks);
    } else if (mark_lists(b, row, low, many, total, marks)) {
        free(marks);
        return NULL;
    }
    return marks;
}
