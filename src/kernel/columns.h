/* The Python side of a plan's columns; -1 with an error set. */
#ifndef OMNIZARR_COLUMNS_H
#define OMNIZARR_COLUMNS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "rows.h"

int fail(const char *message);
int read_axes(PyObject *tuple, int ndim, int64_t *out);
/* The memory that is filled or stored, and the plan, checked against it: a tuple with an item for
 * each axis, or a list with the columns of points. */
int read_array(batch_t *b, const Py_buffer *view, PyObject *plan);
void free_columns(batch_t *b);

/* memory.c: memory of results. */
int memory_init(void);
PyObject *py_memory(PyObject *self, PyObject *args);

#endif
