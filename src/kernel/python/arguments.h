/* Python arguments and objects of the kernel. Functions that return OZ_PYTHON have set an
 * exception; all of them need the GIL. */
#ifndef OZ_ARGUMENTS_H
#define OZ_ARGUMENTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "rows/rows.h"

/* plan.c: raise ValueError; */
oz_status oz_raise(const char *message);
/* take a tuple with one number for each axis; */
oz_status oz_take_axes(PyObject *tuple, int ndim, int64_t *out);
/* take the array that is filled or stored, and the plan, checked against it: a tuple with an item
 * for each axis, or a list with the columns of points. */
oz_status oz_take_plan(oz_batch *batch, const Py_buffer *view, PyObject *plan);
void oz_free_plan(oz_batch *batch);

/* One axis of a selection: its positions, the length of the axis, and 1 where the result has it. */
typedef struct {
    oz_run run;
    int64_t length;
    int kept;
} oz_selected;

/* find the type of NumPy's integers, before any selection is taken; */
oz_status oz_plan_init(void);
/* take a selection of integers, slices with positive steps and an ellipsis from an array of some
 * shape, a tuple; OZ_UNSUPPORTED for others, for wrong ones and for those that select nothing; */
oz_status oz_take_selection(PyObject *selection, PyObject *shape, oz_selected *axes);
/* make the rows of a batch of it; OZ_UNSUPPORTED where those are too many. */
oz_status oz_cut_selection(oz_batch *batch, const oz_selected *axes, int64_t max_rows);

/* listed_rows.c: take rows that Python lists one by one, and their keys, a list or None.
 * OZ_UNSUPPORTED where one of them is not a box of the chunk and one of the array. A scalar stands
 * for an array that has it everywhere. */
oz_status oz_take_listed_rows(oz_batch *batch, const Py_buffer *view, int is_scalar,
                              PyObject *rows, PyObject *keys);

/* pipeline_object.c: pipeline(...) -> capsule, which owns the oz_pipeline; */
PyObject *oz_pipeline_new(PyObject *module, PyObject *args);
/* the pipeline in a capsule, borrowed from it; NULL with an exception for other objects. */
const oz_pipeline *oz_pipeline_of(PyObject *capsule);

/* result_memory.c: memory(size) -> writable buffer with undefined content. */
oz_status oz_result_memory_init(void);
PyObject *oz_result_memory_new(PyObject *module, PyObject *args);

#endif
