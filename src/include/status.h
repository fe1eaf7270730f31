/* The result of every function of the compiled modules that can fail.
 *
 * OZ_OK is 0, so that `if (status)` means "not done". A function that returns OZ_SYSTEM leaves the
 * errno of the failed call in errno: its own clean-up must not change it.
 */
#ifndef OZ_STATUS_H
#define OZ_STATUS_H

#include <errno.h>

typedef enum {
    OZ_OK = 0,
    OZ_MISSING,     /* there is no value under this key */
    OZ_NOT_SMALLER, /* compression gains nothing: store the bytes uncompressed */
    OZ_RETRY,       /* repeat the whole operation: it will be done in another way */
    OZ_INVALID,     /* stored bytes or arguments contradict themselves or the metadata */
    OZ_UNSUPPORTED, /* possibly valid, but left to the Python code */
    OZ_NO_MEMORY,
    OZ_SYSTEM, /* a system call failed; errno says why */
    OZ_PYTHON, /* a Python exception is set */
} oz_status;

/* Return OZ_SYSTEM for an error that is known without a system call. */
static inline oz_status oz_system_error(int error) {
    errno = error;
    return OZ_SYSTEM;
}

#endif
