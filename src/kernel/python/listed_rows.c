/* Rows that Python lists one by one: a key, an index of the chunk and one of the array for each. */
#include "python/arguments.h"

/* A part of one axis. */
typedef struct {
    int64_t start, count, step;
    int dropped; /* 1: an integer, so the array has no such axis */
} axis_part;

/* Take an integer or a slice of an axis; OZ_UNSUPPORTED for what is neither, or goes backwards. */
static oz_status take_part(PyObject *item, int64_t length, axis_part *part) {
    Py_ssize_t start, stop, step;
    if (PySlice_Check(item)) {
        if (PySlice_Unpack(item, &start, &stop, &step) < 0) return OZ_PYTHON;
        Py_ssize_t count = PySlice_AdjustIndices((Py_ssize_t)length, &start, &stop, step);
        if (step < 1 || count < 1) return OZ_UNSUPPORTED;
        *part = (axis_part){start, count, step, 0};
        return OZ_OK;
    }
    if (!PyLong_Check(item)) return OZ_UNSUPPORTED;
    start = PyLong_AsSsize_t(item);
    if (start == -1 && PyErr_Occurred()) return OZ_PYTHON;
    if (start < 0 || start >= length) return OZ_UNSUPPORTED;
    *part = (axis_part){start, 1, 1, 1};
    return OZ_OK;
}

/* Take where the part goes: all of a slice with step 1 inside the array, as long as the part. */
static oz_status take_target(PyObject *item, int64_t extent, int64_t count, int64_t *outer) {
    Py_ssize_t start, stop, step;
    if (!PySlice_Check(item)) return OZ_UNSUPPORTED;
    if (PySlice_Unpack(item, &start, &stop, &step) < 0) return OZ_PYTHON;
    if (step != 1 || start < 0 || stop < start || stop > extent) return OZ_UNSUPPORTED;
    if (stop - start != count) return OZ_UNSUPPORTED;
    *outer = start;
    return OZ_OK;
}

/* Take one row: a tuple that ends with the index of the chunk, that of the array, and whether the
 * row is whole. `dropped` has the axes that are integers, -1 before the first row. */
static oz_status take_row(const oz_batch *batch, const Py_buffer *view, PyObject *row,
                          int64_t *numbers, int *dropped) {
    int ndim = batch->pipeline->ndim, used = 0;
    Py_ssize_t size = PyTuple_Check(row) ? PyTuple_GET_SIZE(row) : 0;
    if (size < 3) return oz_raise("a row must be a tuple");
    PyObject *inside = PyTuple_GET_ITEM(row, size - 3), *outside = PyTuple_GET_ITEM(row, size - 2);
    if (!PyTuple_Check(inside) || !PyTuple_Check(outside)) return OZ_UNSUPPORTED;
    if (PyTuple_GET_SIZE(inside) != ndim) return OZ_UNSUPPORTED;
    for (int i = 0; i < ndim; i++, numbers += 4) {
        axis_part part;
        int64_t outer = 0, extent = view ? view->shape[i] : INT64_MAX;
        oz_status status =
            take_part(PyTuple_GET_ITEM(inside, i), batch->pipeline->shape[i], &part);
        if (status) return status;
        if (dropped[i] >= 0 && dropped[i] != part.dropped) return OZ_UNSUPPORTED;
        dropped[i] = part.dropped;
        if (!part.dropped && used >= PyTuple_GET_SIZE(outside)) return OZ_UNSUPPORTED;
        if (!part.dropped)
            status = take_target(PyTuple_GET_ITEM(outside, used++), extent, part.count, &outer);
        if (status) return status;
        numbers[0] = part.start, numbers[1] = outer;
        numbers[2] = part.count, numbers[3] = part.step;
    }
    if (used != PyTuple_GET_SIZE(outside)) return OZ_UNSUPPORTED;
    int whole = PyObject_IsTrue(PyTuple_GET_ITEM(row, size - 1));
    numbers[0] = whole;
    return whole < 0 ? OZ_PYTHON : OZ_OK;
}

/* Return 1 where a row replaces every element of its chunk. */
static int covers_chunk(const oz_pipeline *pipeline, const int64_t *numbers) {
    for (int i = 0; i < pipeline->ndim; i++, numbers += 4)
        if (numbers[2] != pipeline->shape[i]) return 0;
    return 1;
}

static oz_status take_keys(oz_batch *batch, PyObject *keys) {
    size_t total = 0, rows = (size_t)batch->rows;
    if (!PyList_Check(keys) || PyList_GET_SIZE(keys) != batch->rows)
        return oz_raise("expected a key for every row");
    for (int pass = 0; pass < 2; pass++) {
        size_t at = 0;
        for (size_t n = 0; n < rows; n++) {
            Py_ssize_t size;
            PyObject *key = PyList_GET_ITEM(keys, (Py_ssize_t)n);
            const char *text = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, &size) : NULL;
            if (!text) return PyErr_Occurred() ? OZ_PYTHON : oz_raise("a key must be text");
            if (pass && (!size || text[0] == '/' || memchr(text, 0, (size_t)size)))
                return OZ_UNSUPPORTED;
            if (pass) memcpy(batch->listed.keys + at, text, (size_t)size);
            if (pass) batch->listed.key_at[n] = at;
            at += (size_t)size;
        }
        if (pass) {
            batch->listed.key_at[rows] = at;
            continue;
        }
        total = at;
        batch->listed.keys = malloc(total + 1);
        if (!batch->listed.keys) {
            PyErr_NoMemory();
            return OZ_PYTHON;
        }
    }
    return OZ_OK;
}

oz_status oz_take_listed_rows(oz_batch *batch, const Py_buffer *view, int is_scalar,
                              PyObject *rows, PyObject *keys) {
    const oz_pipeline *pipeline = batch->pipeline;
    int ndim = pipeline->ndim, dropped[OZ_MAX_AXES];
    int64_t size = oz_listed_size(ndim);
    batch->array = view->buf;
    if (view->itemsize != pipeline->itemsize) return oz_raise("the array does not fit the chunks");
    if (is_scalar ? view->ndim != 0 || !batch->writing : view->ndim != ndim)
        return oz_raise("the array does not fit the chunks");
    if (!PyList_Check(rows)) return oz_raise("rows must be a list");
    batch->rows = PyList_GET_SIZE(rows);
    if (batch->rows > PY_SSIZE_T_MAX / (16 * size)) return oz_raise("too many rows");
    for (int i = 0; i < ndim; i++) batch->strides[i] = is_scalar ? 0 : view->strides[i];
    for (int i = 0; i < ndim; i++) dropped[i] = -1;
    batch->listed.numbers = malloc((size_t)(batch->rows * size + 1) * sizeof(int64_t));
    batch->listed.key_at = calloc((size_t)batch->rows + 1, sizeof(size_t));
    if (!batch->listed.numbers || !batch->listed.key_at) {
        PyErr_NoMemory();
        return OZ_PYTHON;
    }
    for (int64_t n = 0; n < batch->rows; n++) {
        int64_t *numbers = batch->listed.numbers + n * size;
        oz_status status =
            take_row(batch, is_scalar ? NULL : view, PyList_GET_ITEM(rows, n), numbers, dropped);
        if (status) return status;
        /* The rest of a shard stays, also beyond the end of the array. */
        if (pipeline->inner) numbers[size - 1] = covers_chunk(pipeline, numbers);
    }
    return keys == Py_None ? OZ_OK : take_keys(batch, keys);
}
