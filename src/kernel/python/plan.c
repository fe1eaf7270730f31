/* Plans from Python: columns of numbers, which are copied, and every one of them checked. */
#include "python/arguments.h"

#define MAX_ROW_BYTES 1024 /* more than any table of a batch has for one row */

oz_status oz_raise(const char *message) {
    PyErr_SetString(PyExc_ValueError, message);
    return OZ_PYTHON;
}

oz_status oz_take_axes(PyObject *tuple, int ndim, int64_t *out) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != ndim)
        return oz_raise("expected a number for every axis");
    for (int i = 0; i < ndim; i++) {
        out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
        if (out[i] == -1 && PyErr_Occurred()) return OZ_PYTHON;
    }
    return OZ_OK;
}

/* Copy a column of 64-bit integers to memory that has room for `rows` of them. */
static oz_status take_column(PyObject *object, Py_ssize_t rows, int64_t *out) {
    Py_buffer view; /* owned: released below */
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) != 0) return OZ_PYTHON;
    int fits = view.len == rows * 8;
    if (fits) memcpy(out, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return fits ? OZ_OK : oz_raise("columns have different lengths");
}

/* Return a copy of a column of 64-bit integers, which the caller owns, and set their number. */
static int64_t *copy_column(PyObject *object, int64_t *count) {
    Py_buffer view; /* owned: released below */
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) != 0) return NULL;
    int whole = view.len % 8 == 0;
    int64_t *found = whole ? malloc((size_t)view.len + 8) : NULL; /* owned by the caller */
    if (found) memcpy(found, view.buf, (size_t)view.len);
    else if (whole) PyErr_NoMemory();
    else oz_raise("not a column of numbers");
    *count = view.len / 8;
    PyBuffer_Release(&view);
    return found;
}

/* Return 1 where all numbers are at least 0 and below a limit. */
static int all_below(const int64_t *numbers, int64_t count, int64_t limit) {
    for (int64_t n = 0; n < count; n++)
        if (numbers[n] < 0 || numbers[n] >= limit) return 0;
    return 1;
}

/* Return 1 where `begin` cuts `count` elements into `rows` parts, none of them empty. */
static int is_partition(const int64_t *begin, int64_t rows, int64_t count) {
    if (begin[0] != 0 || begin[rows] != count) return 0;
    for (int64_t k = 0; k < rows; k++)
        if (begin[k] >= begin[k + 1] || begin[k + 1] > count) return 0;
    return 1;
}

static oz_status allocate_axis(oz_axis *axis, Py_ssize_t rows) {
    if (rows < 0 || rows > PY_SSIZE_T_MAX / 64) return oz_raise("too many rows");
    axis->chunk = calloc((size_t)rows + 1, 5 * sizeof *axis->chunk);
    if (!axis->chunk) {
        PyErr_NoMemory();
        return OZ_PYTHON;
    }
    axis->length = rows, axis->step = 1;
    axis->inner = axis->chunk + rows, axis->outer = axis->inner + rows;
    axis->count = axis->outer + rows, axis->whole = axis->count + rows;
    return OZ_OK;
}

/* Take a run: its start, count and step, and the length of the axis; it is cut here into chunks of
 * one size. `extent` is the length of the array that is filled or stored. */
static oz_status take_run(PyObject *item, oz_axis *axis, int64_t size, int64_t extent) {
    int64_t given[4], last = -1;
    if (oz_take_axes(item, 4, given)) return OZ_PYTHON;
    int64_t start = given[0], count = given[1], step = given[2], length = given[3];
    if (start < 0 || count < 0 || step < 1) return oz_raise("invalid run");
    if (count > extent) return oz_raise("a run reaches out of the array");
    if (count && (__builtin_mul_overflow(count - 1, step, &last) ||
                  __builtin_add_overflow(last, start, &last) || last >= length))
        return oz_raise("a run reaches out of its axis");
    int64_t rows = count ? last / size - start / size + 1 : 0;
    if (allocate_axis(axis, rows < count ? rows : count)) return OZ_PYTHON;
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
    return OZ_OK;
}

/* Take listed positions: four buffers. The run of a chunk goes from its first to its last one. */
static oz_status take_list(PyObject *item, oz_axis *axis, int64_t limit, int64_t extent) {
    PyObject *columns[4];
    int64_t cuts, count, targets;
    if (!PyArg_ParseTuple(item, "OOOO", &columns[0], &columns[1], &columns[2], &columns[3]))
        return OZ_PYTHON;
    if (!(axis->begin = copy_column(columns[1], &cuts))) return OZ_PYTHON;
    if (!(axis->inner_at = copy_column(columns[2], &count))) return OZ_PYTHON;
    if (!(axis->outer_at = copy_column(columns[3], &targets))) return OZ_PYTHON;
    if (cuts < 1 || count != targets || !is_partition(axis->begin, cuts - 1, count))
        return oz_raise("columns have different lengths");
    if (!all_below(axis->inner_at, count, limit)) return oz_raise("a row reaches out of its chunk");
    if (!all_below(axis->outer_at, count, extent))
        return oz_raise("a row reaches out of the array");
    if (allocate_axis(axis, cuts - 1)) return OZ_PYTHON;
    if (take_column(columns[0], axis->length, axis->chunk)) return OZ_PYTHON;
    if (!all_below(axis->chunk, axis->length, INT64_MAX)) return oz_raise("invalid chunk");
    for (int64_t k = 0; k < axis->length; k++) {
        int64_t low = INT64_MAX, high = 0;
        for (int64_t n = axis->begin[k]; n < axis->begin[k + 1]; n++) {
            low = axis->inner_at[n] < low ? axis->inner_at[n] : low;
            high = axis->inner_at[n] > high ? axis->inner_at[n] : high;
        }
        axis->inner[k] = low, axis->count[k] = high - low + 1;
    }
    return OZ_OK;
}

/* Take single points: their chunks, where those begin, positions in the chunk and in the array. */
static oz_status take_points(oz_batch *batch, const Py_buffer *view, PyObject *list) {
    oz_points *p = &batch->points;
    const oz_pipeline *pipeline = batch->pipeline;
    int64_t ndim = pipeline->ndim, coords, cuts, inner;
    if (PyList_GET_SIZE(list) != 4 || ndim < 1 || view->ndim != 1)
        return oz_raise("invalid points");
    if (!(p->coords = copy_column(PyList_GET_ITEM(list, 0), &coords)) ||
        !(p->begin = copy_column(PyList_GET_ITEM(list, 1), &cuts)) ||
        !(p->inner = copy_column(PyList_GET_ITEM(list, 2), &inner)) ||
        !(p->outer = copy_column(PyList_GET_ITEM(list, 3), &p->count)))
        return OZ_PYTHON;
    if (cuts < 1 || coords / ndim != cuts - 1 || coords % ndim || inner % ndim ||
        inner / ndim != p->count || !is_partition(p->begin, cuts - 1, p->count))
        return oz_raise("columns have different lengths");
    if (!all_below(p->coords, coords, INT64_MAX)) return oz_raise("invalid chunk");
    for (int64_t i = 0; i < ndim; i++)
        if (!all_below(p->inner + i * p->count, p->count, pipeline->shape[i]))
            return oz_raise("a row reaches out of its chunk");
    if (!all_below(p->outer, p->count, view->shape[0]))
        return oz_raise("a row reaches out of the array");
    batch->strides[0] = view->strides[0];
    batch->rows = cuts - 1;
    batch->elements = 1;
    return OZ_OK;
}

oz_status oz_take_plan(oz_batch *batch, const Py_buffer *view, PyObject *plan) {
    const oz_pipeline *pipeline = batch->pipeline;
    int ndim = pipeline->ndim;
    batch->array = view->buf;
    batch->rows = 1;
    if (view->itemsize != pipeline->itemsize) return oz_raise("the array does not fit the chunks");
    if (PyList_Check(plan)) return take_points(batch, view, plan);
    if (!PyTuple_Check(plan) || PyTuple_GET_SIZE(plan) != ndim || view->ndim != ndim)
        return oz_raise("the array does not fit the chunks");
    for (int i = 0; i < ndim; i++) {
        PyObject *item = PyTuple_GET_ITEM(plan, i);
        oz_axis *axis = &batch->axes[i];
        if (!PyTuple_Check(item)) return oz_raise("an axis must be a tuple");
        batch->strides[i] = view->strides[i];
        int listed = PyTuple_GET_SIZE(item) < 1 || !PyLong_Check(PyTuple_GET_ITEM(item, 0));
        oz_status status =
            (listed ? take_list : take_run)(item, axis, pipeline->shape[i], view->shape[i]);
        if (status) return status;
        batch->elements |= listed;
        if (__builtin_mul_overflow(batch->rows, axis->length, &batch->rows))
            return oz_raise("too many rows");
    }
    return batch->rows > PY_SSIZE_T_MAX / MAX_ROW_BYTES ? oz_raise("too many rows") : OZ_OK;
}

void oz_free_plan(oz_batch *batch) {
    for (int i = 0; i < OZ_MAX_AXES; i++) {
        oz_axis *a = &batch->axes[i];
        free(a->chunk), free(a->begin), free(a->inner_at), free(a->outer_at);
    }
    oz_points *p = &batch->points;
    free(p->coords), free(p->begin), free(p->inner), free(p->outer);
}
