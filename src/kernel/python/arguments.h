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

/* pipeline_object.c: pipeline(...) -> capsule, which owns the oz_pipeline; */
PyObject *oz_pipeline_new(PyObject *module, PyObject *args);
/* the pipeline in a capsule, borrowed from it; NULL with an exception for other objects. */
const oz_pipeline *oz_pipeline_of(PyObject *capsule);

/* result_memory.c: memory(size) -> writable buffer with undefined content. */
oz_status oz_result_memory_init(void);
PyObject *oz_result_memory_new(PyObject *module, PyObject *args);

#endif
