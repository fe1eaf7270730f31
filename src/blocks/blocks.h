/* Blocks of an array, each made into one element: its mean, its largest or its commonest value. */
#ifndef BLOCKS_H
#define BLOCKS_H

#include <stddef.h>

enum { MEAN, MAX, MODE, METHODS };
enum { MOST = 256 }; /* elements of a block whose mode is found here */

/* The blocks of one row of the result: `rows` rows of the source, at `offsets` from the first. */
typedef struct {
    const ptrdiff_t *offsets;
    ptrdiff_t rows, factor; /* elements of a block along the last axis: `factor` */
} Blocks;

/* Make `length` elements from the blocks that begin at `in`; `scratch` has room for all of them in
 * the widest type. */
typedef void (*Maker)(const Blocks *, const char *in, char *out, ptrdiff_t length, void *scratch);

/* The maker for a type, 'u', 'i' or 'f' and a size in bytes, or NULL where there is none. */
Maker maker(int method, char kind, ptrdiff_t size, ptrdiff_t count);

#ifdef PY_SSIZE_T_CLEAN
PyObject *weigh(PyObject *module, PyObject *args);
#endif

#endif
