/* Boxes of elements: part of a chunk, and its position in an array of any strides. */
#ifndef OZ_BOX_H
#define OZ_BOX_H

#include "codecs/pipeline.h"

typedef struct {
    const int64_t *start, *count, *step; /* borrowed: of each axis, in the chunk */
    unsigned char *array;   /* borrowed: the element of the array that is first in the box */
    const int64_t *strides; /* borrowed: of the array */
} oz_box;

/* Copy `count` elements along each axis between arrays of any strides. */
void oz_copy_box(const oz_pipeline *pipeline, const int64_t *count, const unsigned char *source,
                 const int64_t *source_strides, unsigned char *target,
                 const int64_t *target_strides);

/* Copy a box to its array, from decoded bytes that begin with its first element. */
void oz_copy_from_chunk(const oz_pipeline *pipeline, const oz_box *box,
                        const unsigned char *decoded);

/* Set a box of an array to the fill value. */
void oz_fill_box(const oz_pipeline *pipeline, const int64_t *count, unsigned char *array,
                 const int64_t *strides);

/* Set the range of bytes in a decoded chunk from the first to the last element of a box. */
void oz_box_range(const oz_pipeline *pipeline, const oz_box *box, int64_t *first, int64_t *end);

/* Return 1 where a box is the whole chunk and the same run of bytes in the chunk and the array. */
int oz_box_is_contiguous(const oz_pipeline *pipeline, const oz_box *box);

/* Return 1 where the range of a box is less than half of its chunk, so that partial decoding is
 * worth it. */
int oz_box_is_small(const oz_pipeline *pipeline, const oz_box *box);

#endif
