#include "chunks/read.h"

#include "rows/elements.h"
#include "rows/segments.h"
#include "rows/shard_index.h"

#include <stdlib.h>
#include <string.h>

#define GAP 8192                    /* bytes that take about as long to read as another call */
#define SLAB (128 << 10)            /* bytes that stay in the cache of one core */
#define MAX_ELEMENTS_BOX (64 << 20) /* bytes of the box around single elements */

/* Decode part of a Blosc buffer, a few planes at a time where blocks are whole planes or planes
 * whole blocks: then what was decoded is still in the cache when it is copied. */
static oz_status read_blosc_box(const oz_pipeline *pipeline, oz_workspace *workspace,
                                oz_input *input, const oz_box *box) {
    int64_t start[OZ_MAX_AXES], count[OZ_MAX_AXES];
    oz_blosc1 buffer;
    oz_status status = oz_blosc1_open(workspace, input, pipeline->nbytes, &buffer);
    if (status) return status;
    int64_t block = buffer.block;
    int ndim = pipeline->ndim, axis = ndim ? (int)pipeline->permutation[0] : 0;
    int64_t all = ndim ? box->count[axis] : 1;
    int64_t plane = ndim ? pipeline->strides[axis] : pipeline->nbytes;
    int fits = ndim && (block % plane == 0 || plane % block == 0);
    oz_box part = {start, count, box->step, box->array, box->strides};
    memcpy(start, box->start, sizeof *start * (size_t)ndim);
    memcpy(count, box->count, sizeof *count * (size_t)ndim);
    for (int64_t n = 0, next; n < all; n = next) {
        next = all;
        if (fits) { /* up to the end of the block that contains the plane */
            int64_t step = box->step[axis];
            start[axis] = box->start[axis] + n * step;
            int64_t beyond = block > plane ? (start[axis] * plane / block + 1) * (block / plane)
                                           : start[axis] + 1;
            next = n + (beyond - start[axis] + step - 1) / step;
            if (next > all) next = all;
            count[axis] = next - n;
            part.array = box->array + n * box->strides[axis];
        }
        int64_t first, end;
        oz_box_range(pipeline, &part, &first, &end);
        status = oz_buffer_reserve(&workspace->decoded, (size_t)(end - first));
        if (status) return status;
        unsigned char *decoded = workspace->decoded.data; /* borrowed from the workspace */
        status = oz_blosc1_decode(&buffer, workspace, input, first, end, decoded);
        if (status) return status;
        if (pipeline->swap) oz_swap_bytes(decoded, end - first, pipeline->swap);
        oz_copy_from_chunk(pipeline, &part, decoded);
    }
    return OZ_OK;
}

/* Decode a chunk, at least the bytes before `end`; `*found` is borrowed from the workspace or `in`. */
static oz_status decode_chunk(const oz_pipeline *pipeline, oz_workspace *workspace, oz_bytes in,
                              int64_t end, const unsigned char **found) {
    oz_buffer *decoded = &workspace->decoded;
    size_t size = (size_t)pipeline->nbytes, needed = (size_t)end;
    if (oz_buffer_reserve(decoded, size ? size : 1)) return OZ_NO_MEMORY;
    oz_status status = oz_decode(pipeline, workspace, in, needed, decoded->data, found);
    if (status || !pipeline->swap) return status;
    if (*found != decoded->data) memcpy(decoded->data, *found, needed);
    oz_swap_bytes(decoded->data, end, pipeline->swap);
    *found = decoded->data;
    return OZ_OK;
}

/* Decode one chunk and copy a box of it into the array. */
static oz_status decode_box(const oz_pipeline *pipeline, oz_workspace *workspace, oz_bytes in,
                            const oz_box *box) {
    int direct = oz_box_is_contiguous(pipeline, box);
    if (direct) return oz_decode_into(pipeline, workspace, in, box->array);
    if (oz_blosc_is_last(pipeline)) {
        oz_status status = oz_verify_checksums(pipeline, &in);
        if (status) return status;
        oz_input input = oz_input_from(in);
        return read_blosc_box(pipeline, workspace, &input, box);
    }
    const unsigned char *found; /* borrowed from the workspace or `in` */
    int64_t first, end;
    oz_box_range(pipeline, box, &first, &end);
    oz_status status = decode_chunk(pipeline, workspace, in, end, &found);
    if (!status) oz_copy_from_chunk(pipeline, box, found + first);
    return status;
}

/* Read part of a chunk without codecs: only the range of bytes of the box. */
static oz_status read_range(const oz_pipeline *pipeline, oz_workspace *workspace, oz_input *input,
                            const oz_box *box) {
    int64_t first, end;
    const unsigned char *data; /* borrowed from the input or the workspace */
    oz_box_range(pipeline, box, &first, &end);
    oz_status status = oz_input_read(input, first, end - first, &workspace->stored, &data);
    if (status) return status;
    if (pipeline->swap) {
        oz_buffer *decoded = &workspace->decoded;
        if (oz_buffer_reserve(decoded, (size_t)(end - first))) return OZ_NO_MEMORY;
        memcpy(decoded->data, data, (size_t)(end - first));
        oz_swap_bytes(decoded->data, end - first, pipeline->swap);
        data = decoded->data;
    }
    oz_copy_from_chunk(pipeline, box, data);
    return OZ_OK;
}

/* As read_range, a few planes at a time, so that what was read is still in the cache when it is
 * copied; plane by plane where there are many bytes between them. `depth` counts stored axes. */
static oz_status read_slabs(const oz_pipeline *pipeline, oz_workspace *workspace, oz_input *input,
                            const oz_box *box, int depth) {
    int64_t first, end, start[OZ_MAX_AXES], count[OZ_MAX_AXES];
    oz_box_range(pipeline, box, &first, &end);
    if (depth == pipeline->ndim || end - first <= GAP)
        return read_range(pipeline, workspace, input, box);
    int axis = (int)pipeline->permutation[depth];
    int64_t stride = pipeline->strides[axis] * box->step[axis], all = box->count[axis];
    int64_t between = stride - (end - first - (all - 1) * stride);
    int64_t planes = between > GAP ? 1 : SLAB / stride;
    if (planes < 1) planes = 1;
    oz_box part = {start, count, box->step, box->array, box->strides};
    memcpy(start, box->start, sizeof *start * (size_t)pipeline->ndim);
    memcpy(count, box->count, sizeof *count * (size_t)pipeline->ndim);
    oz_status status = OZ_OK;
    for (int64_t n = 0; n < all && !status; n += planes) {
        part.array = box->array + n * box->strides[axis];
        start[axis] = box->start[axis] + n * box->step[axis];
        count[axis] = all - n < planes ? all - n : planes;
        status = between > GAP ? read_slabs(pipeline, workspace, input, &part, depth + 1)
                               : read_range(pipeline, workspace, input, &part);
    }
    return status;
}

/* Read a chunk without codecs; straight into the array where both are one run. */
static oz_status read_uncompressed(const oz_pipeline *pipeline, oz_workspace *workspace,
                                   oz_input *input, const oz_box *box) {
    if (input->size != pipeline->nbytes) return OZ_INVALID;
    if (input->file >= 0 && !pipeline->swap && oz_box_is_contiguous(pipeline, box))
        return oz_read_at(input->file, box->array, (size_t)pipeline->nbytes, 0);
    return read_slabs(pipeline, workspace, input, box, 0);
}

/* The inner chunk number `n` of those that a row touches. */
typedef struct {
    int64_t entry; /* its number in the index */
    int64_t start[OZ_MAX_AXES], count[OZ_MAX_AXES];
    unsigned char *array; /* borrowed: its first element in the array */
} inner_part;

/* Set the part of the row's box in an inner chunk; return 0 where a step leaves it out. */
static int find_inner_part(const oz_pipeline *pipeline, const oz_inner_box *touched,
                           const oz_box *box, int64_t n, inner_part *part) {
    int64_t weight = 1;
    part->entry = 0, part->array = box->array;
    for (int i = pipeline->ndim - 1; i >= 0; i--) {
        int64_t at = touched->first[i] + n % touched->count[i];
        int64_t size = pipeline->inner->shape[i];
        oz_run run = {box->start[i], box->count[i], box->step[i]};
        oz_clipped clipped;
        n /= touched->count[i];
        part->entry += at * weight;
        weight *= pipeline->counts[i];
        if (!oz_clip(&run, at * size, (at + 1) * size, &clipped)) return 0;
        part->start[i] = clipped.inner, part->count[i] = clipped.count;
        part->array += clipped.outer * box->strides[i];
    }
    return 1;
}

static oz_status read_inner(const oz_batch *batch, oz_workspace *workspace, oz_input *input,
                            oz_index_entry entry, const oz_box *box) {
    const oz_pipeline *inner = batch->pipeline->inner;
    if (oz_is_missing(entry)) {
        if (batch->skip_missing) return OZ_MISSING;
        oz_fill_box(inner, box->count, box->array, box->strides);
        return OZ_OK;
    }
    if (entry.offset > INT64_MAX || entry.size > INT64_MAX) return OZ_INVALID;
    oz_bytes in = {NULL, (size_t)entry.size};
    oz_status status = oz_input_read(input, (int64_t)entry.offset, (int64_t)entry.size,
                                     &workspace->stored, &in.data);
    return status ? status : decode_box(inner, workspace, in, box);
}

static oz_status read_shard(const oz_batch *batch, oz_workspace *workspace, oz_input *input,
                            const oz_row *row, const oz_box *box, int64_t slice) {
    const oz_pipeline *pipeline = batch->pipeline;
    const unsigned char *index; /* borrowed from the input or the workspace */
    oz_status status = oz_index_read(pipeline, input, &workspace->index, &index);
    if (status) return status;
    oz_inner_box touched;
    oz_touched_inner(pipeline, row, &touched);
    int64_t begin = touched.total * slice / batch->slices;
    int64_t end = touched.total * (slice + 1) / batch->slices;
    unsigned char *wanted = NULL; /* owned: freed below */
    if (batch->elements && !(wanted = oz_mark_inner(batch, row, &touched))) return OZ_NO_MEMORY;
    for (int64_t n = begin; n < end && !status; n++) {
        inner_part part;
        if (wanted && !wanted[n]) continue;
        if (!find_inner_part(pipeline, &touched, box, n, &part)) continue;
        oz_index_entry entry = oz_index_get(pipeline, index, part.entry);
        oz_box inner_box = {part.start, part.count, box->step, part.array, box->strides};
        status = read_inner(batch, workspace, input, entry, &inner_box);
    }
    free(wanted);
    return status;
}

/* Read a box of a chunk that is no shard. */
static oz_status read_chunk(const oz_pipeline *pipeline, oz_workspace *workspace, oz_input *input,
                            const oz_box *box) {
    if (pipeline->nsteps == 0) return read_uncompressed(pipeline, workspace, input, box);
    if (input->file >= 0 && pipeline->nsteps == 1 && oz_blosc_is_last(pipeline) &&
        oz_box_is_small(pipeline, box))
        return read_blosc_box(pipeline, workspace, input, box);
    oz_bytes in = {NULL, (size_t)input->size};
    oz_status status = oz_input_read(input, 0, input->size, &workspace->stored, &in.data);
    return status ? status : decode_box(pipeline, workspace, in, box);
}

static oz_status read_box(const oz_batch *batch, oz_workspace *workspace, oz_input *input,
                          const oz_row *row, const oz_box *box, int64_t slice) {
    if (batch->pipeline->inner) return read_shard(batch, workspace, input, row, box, slice);
    return read_chunk(batch->pipeline, workspace, input, box);
}

/* Copy some boxes to the array, from decoded bytes of the chunk that begin at `base`. */
static void copy_boxes(oz_boxes *boxes, int64_t from, int64_t to, const unsigned char *decoded,
                       int64_t base) {
    for (int64_t n = from; n < to; n++) {
        int64_t first, end;
        oz_box box = oz_get_box(boxes, n);
        oz_box_range(boxes->pipeline, &box, &first, &end);
        oz_copy_from_chunk(boxes->pipeline, &box, decoded + (first - base));
    }
}

/* Set where the first one of the bytes of some boxes is in a chunk, and the end of the last one. */
static void range_of_boxes(oz_boxes *boxes, int64_t *low, int64_t *high) {
    *low = INT64_MAX, *high = 0;
    for (int64_t n = 0; n < boxes->total; n++) {
        int64_t first, end;
        oz_box box = oz_get_box(boxes, n);
        oz_box_range(boxes->pipeline, &box, &first, &end);
        *low = first < *low ? first : *low, *high = end > *high ? end : *high;
    }
}

/* Decode the blocks of a Blosc buffer that boxes need; each once, if the boxes are in order. */
static oz_status read_blosc_boxes(oz_boxes *boxes, oz_workspace *workspace, oz_input *input) {
    const oz_pipeline *pipeline = boxes->pipeline;
    int64_t begin = 0, low = 0, high = 0;
    oz_blosc1 buffer;
    oz_status status = oz_blosc1_open(workspace, input, pipeline->nbytes, &buffer);
    if (status) return status;
    int64_t block = buffer.block;
    for (int64_t n = 0; n <= boxes->total; n++) {
        int64_t first = 0, end = 0;
        if (n < boxes->total) {
            oz_box box = oz_get_box(boxes, n);
            oz_box_range(pipeline, &box, &first, &end);
            if (n == begin) low = first, high = end;
            if (first >= low && first / block <= (high - 1) / block) {
                high = end > high ? end : high;
                continue;
            }
        }
        status = oz_buffer_reserve(&workspace->decoded, (size_t)(high - low));
        if (status) return status;
        unsigned char *decoded = workspace->decoded.data; /* borrowed from the workspace */
        status = oz_blosc1_decode(&buffer, workspace, input, low, high, decoded);
        if (status) return status;
        if (pipeline->swap) oz_swap_bytes(decoded, high - low, pipeline->swap);
        copy_boxes(boxes, begin, n, decoded, low);
        begin = n, low = first, high = end;
    }
    return OZ_OK;
}

/* Decode one chunk and copy boxes of it into the array. */
static oz_status decode_boxes(oz_boxes *boxes, oz_workspace *workspace, oz_bytes in) {
    const oz_pipeline *pipeline = boxes->pipeline;
    if (boxes->total == 1) {
        oz_box box = oz_get_box(boxes, 0);
        return decode_box(pipeline, workspace, in, &box);
    }
    if (oz_blosc_is_last(pipeline)) {
        oz_status status = oz_verify_checksums(pipeline, &in);
        if (status) return status;
        oz_input input = oz_input_from(in);
        return read_blosc_boxes(boxes, workspace, &input);
    }
    const unsigned char *found; /* borrowed from the workspace or `in` */
    int64_t low, high;
    range_of_boxes(boxes, &low, &high);
    oz_status status = decode_chunk(pipeline, workspace, in, high, &found);
    if (!status) copy_boxes(boxes, 0, boxes->total, found, 0);
    return status;
}

/* Read boxes of a chunk without codecs: each of them, or all that is between them. */
static oz_status read_uncompressed_boxes(oz_boxes *boxes, oz_workspace *workspace,
                                         oz_input *input) {
    const oz_pipeline *pipeline = boxes->pipeline;
    int64_t low, high;
    range_of_boxes(boxes, &low, &high);
    if (input->size != pipeline->nbytes) return OZ_INVALID;
    if ((high - low) / boxes->total > GAP) {
        oz_status status = OZ_OK;
        for (int64_t n = 0; n < boxes->total && !status; n++) {
            oz_box box = oz_get_box(boxes, n);
            status = read_slabs(pipeline, workspace, input, &box, 0);
        }
        return status;
    }
    const unsigned char *data; /* borrowed from the input or the workspace */
    oz_status status = oz_input_read(input, low, high - low, &workspace->stored, &data);
    if (status) return status;
    if (pipeline->swap) {
        oz_buffer *decoded = &workspace->decoded;
        if (oz_buffer_reserve(decoded, (size_t)(high - low))) return OZ_NO_MEMORY;
        memcpy(decoded->data, data, (size_t)(high - low));
        oz_swap_bytes(decoded->data, high - low, pipeline->swap);
        data = decoded->data;
    }
    copy_boxes(boxes, 0, boxes->total, data, low);
    return OZ_OK;
}

/* Read boxes of a chunk that is no shard. */
static oz_status read_chunk_boxes(oz_boxes *boxes, oz_workspace *workspace, oz_input *input) {
    const oz_pipeline *pipeline = boxes->pipeline;
    if (boxes->total == 1) {
        oz_box box = oz_get_box(boxes, 0);
        return read_chunk(pipeline, workspace, input, &box);
    }
    if (pipeline->nsteps == 0) return read_uncompressed_boxes(boxes, workspace, input);
    /* Of a large file only the blocks are read, with three calls for each box. */
    if (input->file >= 0 && pipeline->nsteps == 1 && oz_blosc_is_last(pipeline) &&
        input->size / boxes->total > 4 * GAP)
        return read_blosc_boxes(boxes, workspace, input);
    oz_bytes in = {NULL, (size_t)input->size};
    oz_status status = oz_input_read(input, 0, input->size, &workspace->stored, &in.data);
    return status ? status : decode_boxes(boxes, workspace, in);
}

static void fill_boxes(oz_boxes *boxes) {
    for (int64_t n = 0; n < boxes->total; n++) {
        oz_box box = oz_get_box(boxes, n);
        oz_fill_box(boxes->pipeline, box.count, box.array, box.strides);
    }
}

/* Read boxes of a shard: each inner chunk that they touch once. */
static oz_status read_shard_boxes(const oz_batch *batch, oz_boxes *boxes, oz_workspace *workspace,
                                  oz_input *input, const oz_row *row) {
    const oz_pipeline *pipeline = batch->pipeline;
    const unsigned char *index; /* borrowed from the input or the workspace */
    oz_status status = oz_index_read(pipeline, input, &workspace->index, &index);
    oz_inner_box touched;
    oz_touched_inner(pipeline, row, &touched);
    for (int64_t number = 0; number < touched.total && !status; number++) {
        int64_t at[OZ_MAX_AXES], n = number, weight = 1, entry_number = 0;
        oz_boxes part;
        for (int i = pipeline->ndim - 1; i >= 0; i--) {
            at[i] = touched.first[i] + n % touched.count[i];
            n /= touched.count[i];
            entry_number += at[i] * weight;
            weight *= pipeline->counts[i];
        }
        status = oz_clip_boxes(boxes, at, &workspace->box, &part);
        if (status || !part.total) continue;
        oz_index_entry entry = oz_index_get(pipeline, index, entry_number);
        if (oz_is_missing(entry)) {
            if (batch->skip_missing) return OZ_MISSING;
            fill_boxes(&part);
            continue;
        }
        if (entry.offset > INT64_MAX || entry.size > INT64_MAX) return OZ_INVALID;
        oz_bytes in = {NULL, (size_t)entry.size};
        status = oz_input_read(input, (int64_t)entry.offset, (int64_t)entry.size,
                               &workspace->stored, &in.data);
        if (!status) status = decode_boxes(&part, workspace, in);
    }
    return status;
}

/* The points of a row that are in one inner chunk. */
typedef struct {
    int64_t n;              /* the inner chunk, counted in those that the row touches */
    const int64_t *numbers; /* borrowed: of the points */
    int64_t total;
} inner_points;

/* Set the box around the points, counted from the beginning of their inner chunk, and where that
 * is in the shard; return its number in the index. */
static int64_t find_points_box(const oz_batch *batch, const oz_inner_box *touched,
                               const inner_points *points, int64_t *origin, int64_t *start,
                               int64_t *count) {
    const oz_pipeline *pipeline = batch->pipeline;
    const oz_points *p = &batch->points;
    int64_t n = points->n, entry = 0, weight = 1;
    for (int i = pipeline->ndim - 1; i >= 0; i--) {
        int64_t at = touched->first[i] + n % touched->count[i], low = INT64_MAX, high = 0;
        n /= touched->count[i];
        entry += at * weight, weight *= pipeline->counts[i];
        for (int64_t k = 0; k < points->total; k++) {
            int64_t position = p->inner[i * p->count + points->numbers[k]];
            low = position < low ? position : low, high = position > high ? position : high;
        }
        origin[i] = at * pipeline->inner->shape[i];
        start[i] = low - origin[i], count[i] = high - low + 1;
    }
    return entry;
}

/* Read points of an inner chunk: the box around them, or all of it where that is decoded anyway. */
static oz_status read_inner_points(const oz_batch *batch, oz_workspace *workspace, oz_input *input,
                                   const unsigned char *index, const oz_inner_box *touched,
                                   const inner_points *points) {
    const oz_pipeline *inner = batch->pipeline->inner;
    int64_t origin[OZ_MAX_AXES], start[OZ_MAX_AXES], count[OZ_MAX_AXES], step[OZ_MAX_AXES];
    int64_t strides[OZ_MAX_AXES], size = inner->itemsize;
    int64_t number = find_points_box(batch, touched, points, origin, start, count);
    oz_index_entry entry = oz_index_get(batch->pipeline, index, number);
    oz_box box = {start, count, step, NULL, strides};
    for (int i = 0; i < inner->ndim; i++) step[i] = 1;
    int all = inner->nsteps && !oz_box_is_small(inner, &box);
    for (int i = 0; i < inner->ndim; i++) all &= inner->permutation[i] == i;
    for (int i = inner->ndim - 1; i >= 0; i--) {
        if (all) start[i] = 0, count[i] = inner->shape[i];
        strides[i] = size, size *= count[i];
        origin[i] += start[i];
    }
    oz_status status = oz_buffer_reserve(&workspace->box, (size_t)size);
    if (status) return status;
    box.array = workspace->box.data;
    status = read_inner(batch, workspace, input, entry, &box);
    for (int64_t k = 0; k < points->total && !status; k++)
        oz_copy_point(batch, points->numbers[k], box.array, origin, strides);
    return status;
}

/* Read points of a shard: one inner chunk that has some after the other. */
static oz_status read_shard_points(const oz_batch *batch, oz_workspace *workspace, oz_input *input,
                                   const oz_row *row, int64_t slice) {
    const unsigned char *index; /* borrowed from the input or the workspace */
    oz_inner_box touched;
    oz_status status = oz_index_read(batch->pipeline, input, &workspace->index, &index);
    if (status) return status;
    oz_touched_inner(batch->pipeline, row, &touched);
    int64_t begin = touched.total * slice / batch->slices;
    int64_t end = touched.total * (slice + 1) / batch->slices;
    int64_t *ends = oz_sort_points(batch, row, &touched); /* owned: freed below */
    if (!ends) return OZ_NO_MEMORY;
    for (int64_t n = begin; n < end && !status; n++) {
        int64_t first = n ? ends[n - 1] : 0;
        inner_points points = {n, ends + touched.total + first, ends[n] - first};
        if (points.total)
            status = read_inner_points(batch, workspace, input, index, &touched, &points);
    }
    free(ends);
    return status;
}

/* Read single elements of one chunk: the box around them, then those out of it. */
static oz_status read_elements(const oz_batch *batch, oz_workspace *workspace, oz_input *input,
                               oz_row *row, int missing, int64_t slice) {
    const oz_pipeline *pipeline = batch->pipeline;
    int64_t strides[OZ_MAX_AXES], size = pipeline->itemsize;
    oz_box box = {row->inner, row->count, row->step, NULL, strides};
    oz_boxes boxes;
    if (!batch->points.coords) {
        oz_row_boxes(batch, row, &boxes);
        int together = oz_boxes_are_long(&boxes);
        if (together && missing) {
            fill_boxes(&boxes);
            return OZ_OK;
        }
        if (together)
            return pipeline->inner ? read_shard_boxes(batch, &boxes, workspace, input, row)
                                   : read_chunk_boxes(&boxes, workspace, input);
    } else if (pipeline->inner && !missing) {
        return read_shard_points(batch, workspace, input, row, slice);
    } else if (slice != batch->slices - 1) { /* the last slice always has inner chunks */
        return OZ_OK;
    }
    /* A chunk that is decoded as a whole need not be copied into a smaller box. */
    int all = !missing && !pipeline->inner && pipeline->nsteps && !oz_box_is_small(pipeline, &box);
    for (int i = 0; i < pipeline->ndim; i++)
        all &= row->step[i] == 1 && pipeline->permutation[i] == i;
    for (int i = pipeline->ndim - 1; i >= 0; i--) {
        int listed = batch->points.coords || batch->axes[i].inner_at;
        if (all && listed) row->inner[i] = 0, row->count[i] = pipeline->shape[i];
        strides[i] = size;
        size *= row->count[i]; /* at most that of the chunk */
    }
    if (size > MAX_ELEMENTS_BOX) return OZ_UNSUPPORTED;
    oz_status status = oz_buffer_reserve(&workspace->box, (size_t)size);
    if (status) return status;
    box.array = workspace->box.data;
    if (missing) oz_fill_box(pipeline, row->count, box.array, strides);
    else status = read_box(batch, workspace, input, row, &box, 0);
    if (!status) oz_copy_elements(batch, row, box.array, strides, 0);
    return status;
}

/* Return 1 where threads that share a row have found different files under its key. */
static int was_replaced(const oz_batch *batch, int64_t number, uint64_t identity) {
    unsigned long long first = 0;
    if (!batch->identities) return 0;
    if (atomic_compare_exchange_strong(&batch->identities[number], &first, identity)) return 0;
    return first != identity;
}

oz_status oz_read_row(oz_batch *batch, oz_workspace *workspace, int64_t number, int64_t slice) {
    oz_row row;
    oz_input input;
    oz_get_row(batch, number, &row);
    if (batch->slices > 1) { /* do not open a file for a slice without inner chunks */
        oz_inner_box touched;
        oz_touched_inner(batch->pipeline, &row, &touched);
        if (touched.total * slice / batch->slices == touched.total * (slice + 1) / batch->slices)
            return OZ_OK;
    }
    oz_box box = {row.inner, row.count, row.step, oz_row_array(batch, &row), batch->strides};
    oz_status status = oz_row_open(batch, &row, &input);
    int missing = status == OZ_MISSING;
    if (missing && batch->missing) atomic_store(&batch->missing[number], 1);
    if (missing) atomic_store(&batch->absent, 1);
    if (missing && !batch->skip_missing) status = OZ_OK;
    if (!status && was_replaced(batch, number, input.identity)) status = OZ_INVALID;
    if (status) {
        /* The reference engine reads this row. */
    } else if (batch->elements) {
        status = read_elements(batch, workspace, &input, &row, missing, slice);
    } else if (missing) { /* the last slice always has inner chunks */
        if (slice == batch->slices - 1)
            oz_fill_box(batch->pipeline, row.count, box.array, batch->strides);
    } else {
        status = read_box(batch, workspace, &input, &row, &box, slice);
    }
    oz_input_close(&input);
    return status;
}
