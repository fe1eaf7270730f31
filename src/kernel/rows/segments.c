#include "rows/segments.h"

#define LONG 64 /* bytes of a box that take about as long as finding the box */

void oz_row_boxes(const oz_batch *batch, const oz_row *row, oz_boxes *boxes) {
    boxes->pipeline = batch->pipeline, boxes->array = batch->array;
    boxes->strides = batch->strides, boxes->total = 1;
    for (int i = 0; i < batch->pipeline->ndim; i++) {
        const oz_axis *a = &batch->axes[i];
        int64_t k = row->part[i];
        boxes->runs[i] = (oz_segment){row->inner[i], row->outer[i], row->count[i]};
        boxes->segments[i] = a->segments ? a->segments + a->segment_begin[k] : &boxes->runs[i];
        boxes->length[i] = a->segments ? a->segment_begin[k + 1] - a->segment_begin[k] : 1;
        boxes->step[i] = row->step[i];
        boxes->total *= boxes->length[i];
    }
}

int oz_boxes_are_long(const oz_boxes *boxes) {
    int64_t elements = 1;
    for (int i = 0; i < boxes->pipeline->ndim; i++) {
        int64_t along = 0;
        for (int64_t n = 0; n < boxes->length[i]; n++) along += boxes->segments[i][n].count;
        elements *= along;
    }
    return elements / boxes->total >= LONG / boxes->pipeline->itemsize;
}

oz_status oz_clip_boxes(const oz_boxes *boxes, const int64_t *at, oz_buffer *buffer,
                        oz_boxes *part) {
    const oz_pipeline *inner = boxes->pipeline->inner;
    size_t most = 0;
    for (int i = 0; i < inner->ndim; i++) most += (size_t)boxes->length[i];
    oz_status status = oz_buffer_reserve(buffer, most * sizeof(oz_segment) + 1);
    if (status) return status;
    oz_segment *next = (oz_segment *)(void *)buffer->data; /* borrowed from the buffer */
    part->pipeline = inner, part->array = boxes->array, part->strides = boxes->strides;
    part->total = 1;
    for (int i = 0; i < inner->ndim; i++) {
        int64_t low = at[i] * inner->shape[i], high = low + inner->shape[i];
        part->segments[i] = next, part->step[i] = boxes->step[i];
        for (int64_t n = 0; n < boxes->length[i]; n++) {
            oz_segment s = boxes->segments[i][n];
            oz_run run = {s.inner, s.count, boxes->step[i]};
            oz_clipped c;
            if (!oz_clip(&run, low, high, &c)) continue;
            *next++ = (oz_segment){c.inner, s.outer + c.outer, c.count};
        }
        part->length[i] = next - part->segments[i];
        part->total *= part->length[i];
    }
    return OZ_OK;
}

oz_box oz_get_box(oz_boxes *boxes, int64_t n) {
    unsigned char *array = boxes->array;
    for (int depth = boxes->pipeline->ndim - 1; depth >= 0; depth--) {
        int i = (int)boxes->pipeline->permutation[depth];
        int64_t length = boxes->length[i];
        const oz_segment *s = &boxes->segments[i][length > 1 ? n % length : 0];
        if (length > 1) n /= length;
        boxes->start[i] = s->inner, boxes->count[i] = s->count;
        array += s->outer * boxes->strides[i];
    }
    return (oz_box){boxes->start, boxes->count, boxes->step, array, boxes->strides};
}
