/* A file that gets its name when it is complete (atomic replace): readers, and a crash, see the old
 * value of a key or the new one, never a part of it. Keys are paths relative to an open directory.
 */
#ifndef OZ_ATOMIC_FILE_H
#define OZ_ATOMIC_FILE_H

#include "status.h"

/* Owned by the caller, usually on its stack; between open and finish it owns the descriptor. */
typedef struct {
    int file;     /* descriptor; -1: not open */
    int unnamed;  /* 1: the file has no name in any directory yet (O_TMPFILE) */
    int only_new; /* set after opening to fail with EEXIST where the key exists */
    int local;    /* set after opening to the result of oz_is_local for its directory */
    unsigned long serial;
} oz_atomic_file;

/* Open a file for writing. `replaces` is 1 where the key probably exists. errno is ENOENT where the
 * parent directory of the key does not exist. */
oz_status oz_atomic_file_open(oz_atomic_file *atomic, int directory, const char *key, int replaces);

/* Close the file and give it its name if `status` is OZ_OK, else remove it and return `status`,
 * with errno as it was. OZ_RETRY: write it again; this system cannot name files that were opened
 * without a name, and the next one is opened in another way. `unnamed` becomes 0 where the key
 * existed. */
oz_status oz_atomic_file_finish(oz_atomic_file *atomic, int directory, const char *key,
                                oz_status status);

/* Return 1 for a directory on a disk of this machine or in its memory, where a failed write is
 * reported at once; 0 where that may come only when the file is closed, or is not known. */
int oz_is_local(int directory);

/* Create the parent directories of a key, which is changed and restored on the way. */
oz_status oz_make_parents(int directory, char *key);

/* Remove the parent directories of a key that are empty, the nearest first; truncates `key`. */
void oz_remove_empty_parents(int directory, char *key);

#endif
