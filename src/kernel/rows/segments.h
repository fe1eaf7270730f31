/* Listed positions as boxes: along each axis they are segments, positions that follow each other
 * both in the chunk and in the array, and each combination of segments is a box. */
#ifndef OZ_SEGMENTS_H
#define OZ_SEGMENTS_H

#include "rows/rows.h"

/* The boxes of a row in one chunk, or in one inner chunk of a shard. */
typedef struct {
    const oz_pipeline *pipeline; /* borrowed from the batch, as the following two */
    unsigned char *array;
    const int64_t *strides;
    const oz_segment *segments[OZ_MAX_AXES]; /* borrowed: of the batch, `runs` or a buffer */
    oz_segment runs[OZ_MAX_AXES];            /* of axes without a list */
    int64_t length[OZ_MAX_AXES], step[OZ_MAX_AXES];
    int64_t total;                                  /* the number of boxes */
    int64_t start[OZ_MAX_AXES], count[OZ_MAX_AXES]; /* of the box that was asked for last */
} oz_boxes;

/* Set the boxes of a row of listed positions. `boxes` must not be copied. */
void oz_row_boxes(const oz_batch *batch, const oz_row *row, oz_boxes *boxes);

/* Return 1 where boxes are long enough to be copied one by one. */
int oz_boxes_are_long(const oz_boxes *boxes);

/* Set the parts of boxes of a shard in the inner chunk at some position, which are valid until the
 * buffer is used again. */
oz_status oz_clip_boxes(const oz_boxes *boxes, const int64_t *at, oz_buffer *buffer,
                        oz_boxes *part);

/* Return box number `n`, in the order in which the chunk is stored; it is valid until the next one
 * is asked for. */
oz_box oz_get_box(oz_boxes *boxes, int64_t n);

#endif
