/* Writing one chunk, or one slice of a shard. */
#ifndef OZ_WRITE_H
#define OZ_WRITE_H

#include "rows/rows.h"

oz_status oz_write_row(oz_batch *batch, oz_workspace *workspace, int64_t number, int64_t slice);

#endif
