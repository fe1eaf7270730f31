/* A chunk or a shard that is written piece by piece: to a file that gets its name at the end, so
 * that readers see the old value or the new one, or to memory. */
#ifndef OZ_OUTPUT_H
#define OZ_OUTPUT_H

#include "atomic_file.h"
#include "rows/rows.h"

/* Owned by the caller from oz_output_start to oz_output_finish. */
typedef struct {
    oz_row row;
    oz_atomic_file atomic;
    int used; /* 1: at least one piece was written */
} oz_output;

void oz_output_start(oz_output *output, const oz_row *row);

/* Write a piece at an offset. */
oz_status oz_output_write(const oz_batch *batch, oz_output *output, oz_bytes piece, size_t at);

/* Copy `size` bytes of an input from the offset `from`. */
oz_status oz_output_copy(const oz_batch *batch, oz_output *output, oz_input *input, int64_t from,
                         size_t size, size_t at);

/* Make the value visible if `status` is OZ_OK, or erase the key where no piece was written. Else
 * discard what was written, and return `status`. */
oz_status oz_output_finish(oz_batch *batch, oz_output *output, oz_status status);

#endif
