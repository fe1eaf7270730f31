/* Copies of whole files, which get their name when they are complete. */
#ifndef OZ_COPY_FILE_H
#define OZ_COPY_FILE_H

#include "status.h"

/* Copy a file and its modification time between two open directories; the parent directories of the
 * copy are created. `name` is changed and restored on the way. `fresh` is 1 where the copy probably
 * does not exist yet. The number of bytes is added to `total`. OZ_UNSUPPORTED: it is not a regular file, or it was
 * changed in place meanwhile. */
oz_status oz_copy_file(int source, int target, char *name, int fresh, long long *total);

#endif
