#include "rows/box.h"

#include <string.h>

#define LINES_AHEAD 8
#define MAX_PREFETCH 512 /* bytes of a line; the processor itself prefetches what follows */

/* One axis of a copy: how many steps, and the distance between them in both arrays. */
typedef struct {
    int64_t count, from, to;
} copy_axis;

static void copy_line(int64_t count, int64_t itemsize, const unsigned char *source, int64_t from,
                      unsigned char *target, int64_t to) {
    if (from == itemsize && to == itemsize) {
        memcpy(target, source, (size_t)(count * itemsize));
        return;
    }
#define LINE(type)                                                      \
    for (int64_t i = 0; i < count; i++, source += from, target += to) { \
        type v;                                                         \
        memcpy(&v, source, sizeof v);                                   \
        memcpy(target, &v, sizeof v);                                   \
    }                                                                   \
    return
    switch (itemsize) {
    case 1: LINE(uint8_t);
    case 2: LINE(uint16_t);
    case 4: LINE(uint32_t);
    case 8: LINE(uint64_t);
    }
#undef LINE
    for (int64_t i = 0; i < count; i++, source += from, target += to)
        memcpy(target, source, (size_t)itemsize);
}

/* Prefetch the beginning of a line that is soon written. Otherwise stores to short lines far apart
 * wait for one cache line after the other. The address need not exist. */
static inline void prefetch_line(const unsigned char *base, int64_t offset, int64_t size) {
    uintptr_t at = (uintptr_t)base + (uintptr_t)offset;
    for (int64_t k = 0; k < size && k < MAX_PREFETCH; k += 64)
        __builtin_prefetch((const void *)(at + (uintptr_t)k), 1);
}

/* Copy lines that are apart; `next` is the target of the lines that are copied after them. */
static void copy_lines(const copy_axis *lines, const copy_axis *line, int64_t itemsize,
                       const unsigned char *source, unsigned char *target,
                       const unsigned char *next) {
    int64_t size = line->count * itemsize;
    int64_t ahead = lines->count < LINES_AHEAD ? lines->count : LINES_AHEAD;
    int contiguous = line->from == itemsize && line->to == itemsize;
    for (int64_t i = 0; i < lines->count; i++, source += lines->from, target += lines->to) {
        if (!contiguous) {
            copy_line(line->count, itemsize, source, line->from, target, line->to);
            continue;
        }
        if (i + ahead < lines->count) prefetch_line(target, ahead * lines->to, size);
        else prefetch_line(next, (i + ahead - lines->count) * lines->to, size);
        memcpy(target, source, (size_t)size);
    }
}

/* Merge neighbouring axes that are one run in both arrays; return the number of the last axis. */
static int merge_axes(copy_axis *axes, int end) {
    int last = 0;
    for (int i = 1; i <= end; i++) {
        const copy_axis *a = &axes[i];
        if (axes[last].from == a->from * a->count && axes[last].to == a->to * a->count)
            axes[last] = (copy_axis){axes[last].count * a->count, a->from, a->to};
        else axes[++last] = *a;
    }
    return last;
}

static inline int64_t distance(int64_t stride) { return stride < 0 ? -stride : stride; }

void oz_copy_box(const oz_pipeline *pipeline, const int64_t *count, const unsigned char *source,
                 const int64_t *source_strides, unsigned char *target,
                 const int64_t *target_strides) {
    copy_axis axes[OZ_MAX_AXES];
    int64_t at[OZ_MAX_AXES] = {0}, itemsize = pipeline->itemsize;
    int last = -1;
    for (int i = 0; i < pipeline->ndim; i++) {
        if (count[i] == 0) return;
        if (count[i] == 1) continue;
        /* Sorted by the target's stride, largest first, so that the innermost writes in order. */
        int64_t key = distance(target_strides[i]);
        int j = ++last;
        for (; j > 0 && distance(axes[j - 1].to) < key; j--) axes[j] = axes[j - 1];
        axes[j] = (copy_axis){count[i], source_strides[i], target_strides[i]};
    }
    if (last < 0) {
        memcpy(target, source, (size_t)itemsize);
        return;
    }
    last = merge_axes(axes, last);
    const copy_axis one = {1, 0, 0}, *lines = last ? &axes[last - 1] : &one;
    for (int i = 0; i >= 0;) {
        const unsigned char *from = source;
        unsigned char *to = target;
        for (i = last - 2; i >= 0; i--) {
            from += axes[i].from, to += axes[i].to;
            if (++at[i] < axes[i].count) break;
            from -= axes[i].from * axes[i].count, to -= axes[i].to * axes[i].count;
            at[i] = 0;
        }
        copy_lines(lines, &axes[last], itemsize, source, target, to);
        source = from, target = to;
    }
}

void oz_copy_from_chunk(const oz_pipeline *pipeline, const oz_box *box,
                        const unsigned char *decoded) {
    int64_t from[OZ_MAX_AXES];
    for (int i = 0; i < pipeline->ndim; i++) from[i] = pipeline->strides[i] * box->step[i];
    oz_copy_box(pipeline, box->count, decoded, from, box->array, box->strides);
}

void oz_fill_box(const oz_pipeline *pipeline, const int64_t *count, unsigned char *array,
                 const int64_t *strides) {
    static const int64_t none[OZ_MAX_AXES];
    oz_copy_box(pipeline, count, pipeline->fill, none, array, strides);
}

void oz_box_range(const oz_pipeline *pipeline, const oz_box *box, int64_t *first, int64_t *end) {
    *first = 0;
    *end = pipeline->itemsize;
    for (int i = 0; i < pipeline->ndim; i++) {
        int64_t last = box->start[i] + (box->count[i] - 1) * box->step[i];
        *first += box->start[i] * pipeline->strides[i];
        *end += last * pipeline->strides[i];
    }
}

int oz_box_is_contiguous(const oz_pipeline *pipeline, const oz_box *box) {
    int64_t expected = pipeline->itemsize;
    for (int i = pipeline->ndim - 1; i >= 0; i--) {
        if (box->count[i] != pipeline->shape[i] || box->step[i] != 1) return 0;
        if (pipeline->permutation[i] != i) return 0;
        if (box->count[i] > 1 && box->strides[i] != expected) return 0;
        expected *= pipeline->shape[i];
    }
    return 1;
}

int oz_box_is_small(const oz_pipeline *pipeline, const oz_box *box) {
    int64_t first, end;
    oz_box_range(pipeline, box, &first, &end);
    return 2 * (end - first) < pipeline->nbytes;
}
