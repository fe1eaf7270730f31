/* Columns of numbers from Python: copied, and every one of them checked. */
#include "columns.h"

#define MAX_ROW_BYTES 1024 /* more than any table here has for one row */

int fail(const char *message) {
    PyErr_SetString(PyExc_ValueError, message);
    return -1;
}

int read_axes(PyObject *tuple, int ndim, int64_t *out) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != ndim) {
        PyErr_SetString(PyExc_ValueError, "expected a number for every axis");
        return -1;
    }
    for (int i = 0; i < ndim; i++) {
        out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
        if (out[i] == -1 && PyErr_Occurred()) return -1;
    }
    return 0;
}

/* Copies one column of 64-bit integers, or of bytes. */
static int read_column(PyObject *object, Py_ssize_t rows, int size, int64_t *out) {
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) != 0) return -1;
    int fits = view.len == rows * size;
    const unsigned char *from = view.buf;
    if (fits && size == 8) memcpy(out, from, (size_t)view.len);
    for (Py_ssize_t k = 0; fits && size == 1 && k < rows; k++) out[k] = from[k];
    PyBuffer_Release(&view);
    return fits ? 0 : fail("columns of different length");
}

/* A column of 64-bit integers in memory of its own, and how many there are. */
static int64_t *own_column(PyObject *object, int64_t *count) {
    Py_buffer view;
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) != 0) return NULL;
    int whole = view.len % 8 == 0;
    int64_t *found = whole ? malloc((size_t)view.len + 8) : NULL;
    if (found) memcpy(found, view.buf, (size_t)view.len);
    else if (whole) PyErr_NoMemory();
    else fail("not a column of numbers");
    *count = view.len / 8;
    PyBuffer_Release(&view);
    return found;
}

/* Whether all of some numbers are from 0 up to, but not including, a limit. */
static int within(const int64_t *numbers, int64_t count, int64_t limit) {
    for (int64_t n = 0; n < count; n++)
        if (numbers[n] < 0 || numbers[n] >= limit) return 0;
    return 1;
}

/* Whether `begin` cuts `count` elements into `rows` parts, none of them empty. */
static int cuts(const int64_t *begin, int64_t rows, int64_t count) {
    if (begin[0] != 0 || begin[rows] != count) return 0;
    for (int64_t k = 0; k < rows; k++)
        if (begin[k] >= begin[k + 1] || begin[k + 1] > count) return 0;
    return 1;
}

static int allot(axis_t *axis, Py_ssize_t rows) {
    if (rows < 0) return -1;
    if (rows > PY_SSIZE_T_MAX / 64) return fail("too many rows");
    axis->chunk = calloc((size_t)rows + 1, 5 * sizeof *axis->chunk);
    if (!axis->chunk) {
        PyErr_NoMemory();
        return -1;
    }
    axis->length = rows, axis->step = 1;
    axis->inner = axis->chunk + rows, axis->outer = axis->inner + rows;
    axis->count = axis->outer + rows, axis->whole = axis->count + rows;
    return 0;
}

/* A run: its start, count and step, and the array's length; cut here along chunks of one size. */
static int read_run(PyObject *item, axis_t *axis, int64_t size, int64_t extent) {
    int64_t given[4], last = -1;
    if (read_axes(item, 4, given)) return -1;
    int64_t start = given[0], count = given[1], step = given[2], length = given[3];
    if (start < 0 || count < 0 || step < 1) return fail("no such run");
    if (count > extent) return fail("a run reaches out of the array");
    if (count && (__builtin_mul_overflow(count - 1, step, &last) ||
                  __builtin_add_overflow(last, start, &last) || last >= length))
        return fail("a run reaches out of its axis");
    int64_t rows = count ? last / size - start / size + 1 : 0;
    if (allot(axis, rows < count ? rows : count)) return -1;
    axis->step = step;
    int64_t k = 0, at = start;
    for (int64_t done = 0; done < count; k++) {
        int64_t chunk = at / size, begin = chunk * size;
        int64_t end = length - begin < size ? length : begin + size;
        int64_t here = (end - at - 1) / step + 1;
        if (here > count - done) here = count - done;
        axis->chunk[k] = chunk, axis->inner[k] = at - begin;
        axis->outer[k] = done, axis->count[k] = here;
        axis->whole[k] = step == 1 && here == end - begin;
        done += here;
        if (done < count) at += here * step;
    }
    axis->length = k;
    return 0;
}

/* Listed positions: four buffers. The run of a chunk goes from its first to its last one. */
static int read_list(PyObject *item, axis_t *axis, int64_t limit, int64_t extent) {
    PyObject *columns[4];
    int64_t cut, count, places;
    if (!PyArg_ParseTuple(item, "OOOO", &columns[0], &columns[1], &columns[2], &columns[3]))
        return -1;
    if (!(axis->begin = own_column(columns[1], &cut))) return -1;
    if (!(axis->at = own_column(columns[2], &count))) return -1;
    if (!(axis->to = own_column(columns[3], &places))) return -1;
    if (cut < 1 || count != places || !cuts(axis->begin, cut - 1, count))
        return fail("columns of different length");
    if (!within(axis->at, count, limit)) return fail("a row reaches out of its chunk");
    if (!within(axis->to, count, extent)) return fail("a row reaches out of the array");
    if (allot(axis, cut - 1)) return -1;
    if (read_column(columns[0], axis->length, 8, axis->chunk)) return -1;
    if (!within(axis->chunk, axis->length, INT64_MAX)) return fail("no such chunk");
    for (int64_t k = 0; k < axis->length; k++) {
        int64_t low = INT64_MAX, high = 0;
        for (int64_t n = axis->begin[k]; n < axis->begin[k + 1]; n++) {
            low = axis->at[n] < low ? axis->at[n] : low;
            high = axis->at[n] > high ? axis->at[n] : high;
        }
        axis->inner[k] = low, axis->count[k] = high - low + 1;
    }
    return 0;
}

/* Single points: their chunks, where those begin, positions inside and in the array. */
static int read_points(batch_t *b, const Py_buffer *view, PyObject *list) {
    points_t *p = &b->points;
    int64_t ndim = b->chain->ndim, coords, cut, inner;
    if (PyList_GET_SIZE(list) != 4 || ndim < 1 || view->ndim != 1) return fail("no such points");
    if (!(p->coords = own_column(PyList_GET_ITEM(list, 0), &coords)) ||
        !(p->begin = own_column(PyList_GET_ITEM(list, 1), &cut)) ||
        !(p->inner = own_column(PyList_GET_ITEM(list, 2), &inner)) ||
        !(p->outer = own_column(PyList_GET_ITEM(list, 3), &p->count)))
        return -1;
    if (cut < 1 || coords / ndim != cut - 1 || coords % ndim || inner % ndim ||
        inner / ndim != p->count || !cuts(p->begin, cut - 1, p->count))
        return fail("columns of different length");
    if (!within(p->coords, coords, INT64_MAX)) return fail("no such chunk");
    for (int64_t i = 0; i < ndim; i++)
        if (!within(p->inner + i * p->count, p->count, b->chain->shape[i]))
            return fail("a row reaches out of its chunk");
    if (!within(p->outer, p->count, view->shape[0])) return fail("a row reaches out of the array");
    b->strides[0] = view->strides[0];
    b->rows = cut - 1;
    b->picks = 1;
    return 0;
}

int read_array(batch_t *b, const Py_buffer *view, PyObject *plan) {
    const chain_t *c = b->chain;
    b->array = view->buf;
    b->rows = 1;
    if (view->itemsize != c->itemsize) return fail("the array does not fit the chunks");
    if (PyList_Check(plan)) return read_points(b, view, plan);
    if (!PyTuple_Check(plan) || PyTuple_GET_SIZE(plan) != c->ndim || view->ndim != c->ndim)
        return fail("the array does not fit the chunks");
    for (int i = 0; i < c->ndim; i++) {
        PyObject *item = PyTuple_GET_ITEM(plan, i);
        if (!PyTuple_Check(item)) return fail("an axis is a tuple");
        b->strides[i] = view->strides[i];
        int listed = PyTuple_GET_SIZE(item) < 1 || !PyLong_Check(PyTuple_GET_ITEM(item, 0));
        if ((listed ? read_list : read_run)(item, &b->axes[i], c->shape[i], view->shape[i]))
            return -1;
        b->picks |= listed;
        if (__builtin_mul_overflow(b->rows, b->axes[i].length, &b->rows))
            return fail("too many rows");
    }
    return b->rows > PY_SSIZE_T_MAX / MAX_ROW_BYTES ? fail("too many rows") : 0;
}

void free_columns(batch_t *b) {
    for (int i = 0; i < MAX_AXES; i++) {
        axis_t *a = &b->axes[i];
        free(a->chunk), free(a->begin), free(a->at), free(a->to);
    }
    free(b->points.coords), free(b->points.begin), free(b->points.inner), free(b->points.outer);
}
