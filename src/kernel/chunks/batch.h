/* Running a batch: threads take one row, or one slice of a row, after the other. */
#ifndef OZ_BATCH_H
#define OZ_BATCH_H

#include "rows/rows.h"

/* Called by the calling thread now and then; returns 1 where the batch has to stop. */
typedef int oz_interrupted(oz_batch *batch);

/* Return 1 where a batch is too small for two threads with `min_bytes` bytes to do for each. */
int oz_batch_is_small(const oz_batch *batch, int64_t min_bytes);

/* Allocate what the threads of a batch share. `threads` is the most that may be used, and is set to
 * the number that is worth it: each thread should have `min_bytes` bytes to do. */
oz_status oz_batch_prepare(oz_batch *batch, int *threads, int64_t min_bytes);

/* Do all rows. Then batch->statuses has the status of each, unless batch->stop is set. */
void oz_batch_run(oz_batch *batch, int threads, oz_interrupted *interrupted);

/* Free a batch and everything that it owns but the plan (oz_free_plan). */
void oz_batch_free(oz_batch *batch);

#endif
