/* Blocks of an array, each reduced to one element: its mean, its maximum or its mode; and weighted
 * sums along an axis. Layers: module.c calls reductions.c and weighted_sums.c. */
#ifndef OZ_BLOCKS_H
#define OZ_BLOCKS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>

enum { OZ_MEAN, OZ_MAX, OZ_MODE, OZ_METHODS };
enum { OZ_MAX_MODE = 256 }; /* elements of the largest block whose mode is found here */

/* The blocks of one row of the result: `rows` rows of the source, at `offsets` from the first. */
typedef struct {
    const ptrdiff_t *offsets; /* borrowed: allocated and freed by reduce_checked in module.c */
    ptrdiff_t rows, factor;   /* factor: elements of a block along the last axis */
} oz_blocks;

/* Reduce the blocks that begin at `in` to `length` elements at `out`. `scratch`, borrowed, has room
 * for all elements of a row of the source in the widest type. */
typedef void oz_reduction(const oz_blocks *, const char *in, char *out, ptrdiff_t length,
                          void *scratch);

/* Return the function for a type ('u', 'i' or 'f', and a size in bytes); NULL: there is none. */
oz_reduction *oz_find_reduction(int method, char kind, ptrdiff_t size, ptrdiff_t count);

/* weighted_sums(values, weights, out, axis, step) -> None */
PyObject *oz_weighted_sums(PyObject *module, PyObject *args);

#endif
