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

/* Cut a run of positions into chunks of one size; `length` is that of the axis. */
static oz_status cut_run(oz_axis *axis, const oz_run *run, int64_t length, int64_t size) {
    int64_t count = run->count, step = run->step;
    int64_t last = run->start + (count - 1) * step;
    int64_t rows = count ? last / size - run->start / size + 1 : 0;
    if (allocate_axis(axis, rows < count ? rows : count)) return OZ_PYTHON;
    axis->step = step;
    int64_t k = 0, at = run->start;
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

/* Take a run: its start, count and step, and the length of the axis. `extent` is the length of the
 * array that is filled or stored. */
static oz_status take_run(PyObject *item, oz_axis *axis, int64_t size, int64_t extent) {
    int64_t given[4], last = -1;
    if (oz_take_axes(item, 4, given)) return OZ_PYTHON;
    oz_run run = {given[0], given[1], given[2]};
    if (run.start < 0 || run.count < 0 || run.step < 1) return oz_raise("invalid run");
    if (run.count > extent) return oz_raise("a run reaches out of the array");
    if (run.count && (__builtin_mul_overflow(run.count - 1, run.step, &last) ||
                      __builtin_add_overflow(last, run.start, &last) || last >= given[3]))
        return oz_raise("a run reaches out of its axis");
    return cut_run(axis, &run, given[3], size);
}

/* Find the segments among the listed positions of each chunk. */
static oz_status find_segments(oz_axis *axis) {
    int64_t count = axis->begin[axis->length], found = 0;
    axis->segments = malloc(((size_t)count + 1) * sizeof *axis->segments);
    axis->segment_begin = malloc(((size_t)axis->length + 1) * sizeof *axis->segment_begin);
    if (!axis->segments || !axis->segment_begin) {
        PyErr_NoMemory();
        return OZ_PYTHON;
    }
    for (int64_t k = 0; k < axis->length; k++) {
        axis->segment_begin[k] = found;
        for (int64_t n = axis->begin[k]; n < axis->begin[k + 1]; n++) {
            int64_t inner = axis->inner_at[n], outer = axis->outer_at[n];
            oz_segment *last = found > axis->segment_begin[k] ? &axis->segments[found - 1] : NULL;
            if (last && inner == last->inner + last->count && outer == last->outer + last->count)
                last->count++;
            else axis->segments[found++] = (oz_segment){inner, outer, 1};
        }
    }
    axis->segment_begin[axis->length] = found;
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
    return find_segments(axis);
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

static PyTypeObject *numpy_integer; /* owned: as long as the process lives */

oz_status oz_plan_init(void) {
    PyObject *numpy = PyImport_ImportModule("numpy"); /* owned: released below */
    if (numpy) numpy_integer = (PyTypeObject *)PyObject_GetAttrString(numpy, "integer");
    Py_XDECREF(numpy);
    return numpy_integer ? OZ_OK : OZ_PYTHON;
}

/* Clear an error: whoever makes a plan of the selection raises it. */
static oz_status decline(void) {
    PyErr_Clear();
    return OZ_UNSUPPORTED;
}

static oz_status take_number(PyObject *number, int64_t length, oz_selected *axis) {
    int overflow;
    int64_t at = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (at == -1 && PyErr_Occurred()) return decline();
    if (at < 0) at += length;
    if (overflow || at < 0 || at >= length) return OZ_UNSUPPORTED;
    *axis = (oz_selected){{at, 1, 1}, length, 0};
    return OZ_OK;
}

/* Take an integer, one of NumPy's too, or a slice with a positive step; OZ_UNSUPPORTED for all
 * else. */
static oz_status take_item(PyObject *item, int64_t length, oz_selected *axis) {
    if (PyLong_CheckExact(item) || PyObject_TypeCheck(item, numpy_integer))
        return take_number(item, length, axis);
    Py_ssize_t start, stop, step;
    if (!PySlice_Check(item)) return OZ_UNSUPPORTED;
    if (PySlice_Unpack(item, &start, &stop, &step) != 0) return decline();
    int64_t count = PySlice_AdjustIndices((Py_ssize_t)length, &start, &stop, step);
    if (count < 1 || step < 1) return OZ_UNSUPPORTED;
    *axis = (oz_selected){{start, count, count > 1 ? step : 1}, length, 1};
    return OZ_OK;
}

oz_status oz_take_selection(PyObject *selection, PyObject *shape, oz_selected *axes) {
    int tuple = PyTuple_CheckExact(selection);
    Py_ssize_t given = tuple ? PyTuple_GET_SIZE(selection) : 1, next = 0, ellipsis = -1;
    Py_ssize_t ndim = PyTuple_GET_SIZE(shape);
    for (Py_ssize_t n = 0; n < given; n++) {
        PyObject *item = tuple ? PyTuple_GET_ITEM(selection, n) : selection;
        if (item != Py_Ellipsis) continue;
        if (ellipsis >= 0) return OZ_UNSUPPORTED;
        ellipsis = n;
    }
    Py_ssize_t named = ellipsis < 0 ? given : given - 1;
    if (named > ndim) return OZ_UNSUPPORTED;
    if (ellipsis < 0) ellipsis = given;
    for (Py_ssize_t i = 0; i < ndim; i++) {
        int64_t length = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
        if (length == -1 && PyErr_Occurred()) return OZ_PYTHON;
        if (length < 1) return OZ_UNSUPPORTED;
        if (i >= ellipsis && i < ellipsis + ndim - named) { /* what was left out */
            axes[i] = (oz_selected){{0, length, 1}, length, 1};
            next = ellipsis + (ellipsis < given);
            continue;
        }
        PyObject *item = tuple ? PyTuple_GET_ITEM(selection, next) : selection;
        if (item == Py_Ellipsis) item = PyTuple_GET_ITEM(selection, ++next); /* stands for none */
        oz_status status = take_item(item, length, &axes[i]);
        if (status) return status;
        next++;
    }
    return OZ_OK;
}

oz_status oz_cut_selection(oz_batch *batch, const oz_selected *axes, int64_t max_rows) {
    const oz_pipeline *pipeline = batch->pipeline;
    batch->rows = 1;
    for (int i = 0; i < pipeline->ndim; i++) {
        const oz_run *run = &axes[i].run;
        int64_t last = run->start + (run->count - 1) * run->step, size = pipeline->shape[i];
        int64_t rows = last / size - run->start / size + 1;
        if (rows > max_rows || (batch->rows *= rows) > max_rows) return OZ_UNSUPPORTED;
    }
    batch->rows = 1;
    for (int i = 0; i < pipeline->ndim; i++) {
        oz_axis *axis = &batch->axes[i];
        if (cut_run(axis, &axes[i].run, axes[i].length, pipeline->shape[i])) return OZ_PYTHON;
        batch->rows *= axis->length;
    }
    return OZ_OK;
}

void oz_free_plan(oz_batch *batch) {
    for (int i = 0; batch->pipeline && i < batch->pipeline->ndim; i++) {
        oz_axis *a = &batch->axes[i];
        free(a->chunk), free(a->begin), free(a->inner_at), free(a->outer_at);
        free(a->segments), free(a->segment_begin);
    }
    oz_points *p = &batch->points;
    free(p->coords), free(p->begin), free(p->inner), free(p->outer);
    free(batch->listed.numbers), free(batch->listed.keys), free(batch->listed.key_at);
}
