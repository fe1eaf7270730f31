/* Reading one chunk, or one slice of a shard. */
#ifndef OZ_READ_H
#define OZ_READ_H

#include "rows/rows.h"

/* Read a row into the array. Of a shard only the part number `slice` of batch->slices is read. */
oz_status oz_read_row(oz_batch *batch, oz_workspace *workspace, int64_t number, int64_t slice);

#endif
