/* Writing shards. One that is written whole is cut into slices, which threads encode in parallel
 * and write in order; in others the inner chunks that are not touched keep their bytes. */
#ifndef OZ_SHARDS_H
#define OZ_SHARDS_H

#include "rows/rows.h"

/* Write a row, or its slice number `slice`. */
oz_status oz_write_shard(oz_batch *batch, oz_workspace *workspace, const oz_row *row,
                         int64_t slice);

/* Return 1 where a batch may have shards that are written whole, and so in slices. */
int oz_any_whole_shard(const oz_batch *batch);

/* Free the job of a row, also one that was interrupted, or NULL. */
void oz_free_shard_job(oz_batch *batch, oz_shard_job *job);

#endif
