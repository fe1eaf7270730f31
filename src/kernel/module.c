/* The Python side: chains as capsules, and one call for a whole batch. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "rows.h"

#include <blosc2.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#define MAX_THREADS 64
#define MAX_INNER (1 << 26)
#define MAX_ROW_BYTES 1024 /* more than any table here has for one row */

static void chain_free(PyObject *capsule) {
    chain_t *c = PyCapsule_GetPointer(capsule, "omnizarr.chain");
    if (!c) return;
    free(c->inner);
    free(c);
}

static int read_axes(PyObject *tuple, int ndim, int64_t *out) {
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

static int fail(const char *message) {
    PyErr_SetString(PyExc_ValueError, message);
    return -1;
}

static int good_blosc(const step_t *s) {
    return s->typesize > 0 && s->blocksize >= 0 && s->level >= 0 && s->level <= 9 &&
           s->shuffle >= 0 && s->shuffle <= 2 && s->name >= 0 && s->name <= BLOSC_NAME_OTHER;
}

static int read_steps(chain_t *c, PyObject *steps) {
    if (!PyTuple_Check(steps) || PyTuple_GET_SIZE(steps) > MAX_STEPS) return fail("too many steps");
    c->nsteps = (int)PyTuple_GET_SIZE(steps);
    int packed = 0;
    for (int i = 0; i < c->nsteps; i++) {
        step_t *s = &c->steps[i];
        PyObject *item = PyTuple_GET_ITEM(steps, i);
        long long block;
        if (!PyTuple_Check(item)) return fail("a step is a tuple");
        if (!PyArg_ParseTuple(item, "iiiiiiL", &s->kind, &s->level, &s->name, &s->shuffle,
                              &s->typesize, &s->checksum, &block))
            return -1;
        s->blocksize = block;
        int deflate = s->kind == STEP_GZIP || s->kind == STEP_ZLIB;
        if (s->kind < STEP_CRC32C || s->kind > STEP_ZLIB) return fail("unknown step");
        if (deflate && !deflate_load(NULL)) return fail("there is no libdeflate");
        if (deflate && (s->level < 0 || s->level > 9)) return fail("no such level");
        if (s->kind != STEP_CRC32C && packed++) return fail("only one step may compress");
        if (s->kind == STEP_BLOSC && !good_blosc(s)) return fail("not what Blosc can do");
    }
    return 0;
}

static int finish(chain_t *c) {
    if (c->ndim < 0 || c->ndim > MAX_AXES) return fail("too many axes");
    if (c->itemsize < 1 || c->itemsize > MAX_ITEM) return fail("items too large");
    if (c->swap && (c->swap < 2 || c->swap > 8 || c->itemsize % c->swap)) return fail("swap");
    int seen[MAX_AXES] = {0};
    int64_t size = c->itemsize;
    for (int i = c->ndim - 1; i >= 0; i--) {
        int64_t axis = c->perm[i];
        if (axis < 0 || axis >= c->ndim || seen[axis]++) return fail("not a permutation");
        if (c->shape[axis] < 1) return fail("a chunk has no elements");
        c->strides[axis] = size;
        if (__builtin_mul_overflow(size, c->shape[axis], &size)) return fail("too large");
    }
    if (size > INT32_MAX) return fail("too large");
    c->nbytes = size;
    return 0;
}

/* Makes a shard of a chain, with inner chunks as another chain has them. */
static int read_inner(chain_t *c, PyObject *capsule) {
    const chain_t *k = PyCapsule_GetPointer(capsule, "omnizarr.chain");
    if (!k) return -1;
    if (k->inner || k->ndim != c->ndim || k->itemsize != c->itemsize || c->nsteps)
        return fail("not a shard that the kernel knows");
    c->inner = malloc(sizeof *k);
    if (!c->inner) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(c->inner, k, sizeof *k);
    c->inner_count = 1;
    for (int i = 0; i < c->ndim; i++) {
        if (c->perm[i] != i || c->shape[i] < 1 || c->shape[i] % k->shape[i])
            return fail("inner chunks do not fit the shard");
        c->counts[i] = c->shape[i] / k->shape[i];
        if (__builtin_mul_overflow(c->inner_count, c->counts[i], &c->inner_count) ||
            c->inner_count > MAX_INNER)
            return fail("too many inner chunks");
    }
    return 0;
}

/* chain(shape, perm, itemsize, swap, steps, fill, keep_empty, inner, index_crc, index_swap,
 * index_at_end) */
static PyObject *py_chain(PyObject *self, PyObject *args) {
    PyObject *shape, *perm, *steps, *inner;
    const char *fill;
    Py_ssize_t fill_size;
    chain_t *c = calloc(1, sizeof *c);
    long long itemsize;
    if (!c) return PyErr_NoMemory();
    if (!PyArg_ParseTuple(args, "O!O!LiO!y#pOppp", &PyTuple_Type, &shape, &PyTuple_Type, &perm,
                          &itemsize, &c->swap, &PyTuple_Type, &steps, &fill, &fill_size,
                          &c->keep_empty, &inner, &c->index_crc, &c->index_swap, &c->index_at_end))
        goto bad;
    c->itemsize = itemsize;
    if (PyTuple_GET_SIZE(shape) > MAX_AXES) {
        fail("too many axes");
        goto bad;
    }
    c->ndim = (int)PyTuple_GET_SIZE(shape);
    if (read_axes(shape, c->ndim, c->shape) || read_axes(perm, c->ndim, c->perm)) goto bad;
    if (fill_size != itemsize || itemsize > MAX_ITEM) {
        fail("the fill value has the wrong size");
        goto bad;
    }
    memcpy(c->fill, fill, (size_t)fill_size);
    if (read_steps(c, steps)) goto bad;
    if (inner != Py_None && read_inner(c, inner)) goto bad;
    if (finish(c)) goto bad;
    PyObject *capsule = PyCapsule_New(c, "omnizarr.chain", chain_free);
    if (capsule) return capsule;
bad:
    free(c->inner);
    free(c);
    return NULL;
}

static void *thread_main(void *batch) {
    work(batch, NULL);
    return NULL;
}

/* Whether Python's handler of a signal has raised; only for the thread that called. */
static int interrupted(batch_t *b) {
    PyEval_RestoreThread(b->python);
    int raised = PyErr_CheckSignals();
    b->python = PyEval_SaveThread();
    return raised;
}

/* Signals are left to Python's own threads. */
static void run(batch_t *b, int threads) {
    pthread_t started[MAX_THREADS];
    sigset_t all, before;
    int count = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; count < threads - 1; count++)
        if (pthread_create(&started[count], NULL, thread_main, b) != 0) break;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    work(b, interrupted);
    for (int i = 0; i < count; i++) pthread_join(started[i], NULL);
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

/* The columns of one axis: five buffers and a step. Every row lies in its chunk, whose length is
 * `limit`, and in the array, whose length is `extent`. */
static int read_axis(PyObject *item, axis_t *axis, int64_t limit, int64_t extent) {
    long long step;
    PyObject *columns[5];
    if (!PyTuple_Check(item)) return fail("an axis is a tuple");
    if (!PyArg_ParseTuple(item, "OOOOOL", &columns[0], &columns[1], &columns[2], &columns[3],
                          &columns[4], &step))
        return -1;
    Py_ssize_t rows = PyObject_Length(columns[4]);
    if (rows < 0) return -1;
    if (step < 1 || rows > PY_SSIZE_T_MAX / 64) return fail("no such step");
    axis->chunk = calloc((size_t)rows + 1, 5 * sizeof *axis->chunk);
    if (!axis->chunk) {
        PyErr_NoMemory();
        return -1;
    }
    axis->length = rows, axis->step = step;
    axis->inner = axis->chunk + rows, axis->outer = axis->inner + rows;
    axis->count = axis->outer + rows, axis->whole = axis->count + rows;
    for (int i = 0; i < 5; i++)
        if (read_column(columns[i], rows, i < 4 ? 8 : 1, axis->chunk + i * rows)) return -1;
    for (Py_ssize_t k = 0; k < rows; k++) {
        int64_t last, end, count = axis->count[k];
        if (axis->chunk[k] < 0 || axis->inner[k] < 0 || axis->outer[k] < 0 || count < 1 ||
            __builtin_mul_overflow(count - 1, axis->step, &last) ||
            __builtin_add_overflow(last, axis->inner[k], &last) || last >= limit)
            return fail("a row reaches out of its chunk");
        if (__builtin_add_overflow(axis->outer[k], count, &end) || end > extent)
            return fail("a row reaches out of the array");
    }
    return 0;
}

/* The memory that is filled or stored, and the axes, checked against it. */
static int read_array(batch_t *b, const Py_buffer *view, PyObject *axes) {
    const chain_t *c = b->chain;
    if (view->ndim != c->ndim || view->itemsize != c->itemsize || PyTuple_GET_SIZE(axes) != c->ndim)
        return fail("the array does not fit the chunks");
    b->array = view->buf;
    b->rows = 1;
    for (int i = 0; i < c->ndim; i++) {
        b->strides[i] = view->strides[i];
        if (read_axis(PyTuple_GET_ITEM(axes, i), &b->axes[i], c->shape[i], view->shape[i]))
            return -1;
        if (__builtin_mul_overflow(b->rows, b->axes[i].length, &b->rows))
            return fail("too many rows");
    }
    return b->rows > PY_SSIZE_T_MAX / MAX_ROW_BYTES ? fail("too many rows") : 0;
}

/* Encoded chunks in memory, which the tuple keeps alive. */
static int read_values(batch_t *b, PyObject *values) {
    if (PyTuple_GET_SIZE(values) != b->rows || b->writing) return fail("a value for every row");
    value_t *found = calloc((size_t)b->rows + 1, sizeof *found);
    if (!found) {
        PyErr_NoMemory();
        return -1;
    }
    b->values = found;
    for (int64_t i = 0; i < b->rows; i++) {
        PyObject *value = PyTuple_GET_ITEM(values, i);
        if (PyBytes_Check(value)) {
            found[i].data = (const unsigned char *)PyBytes_AS_STRING(value);
            found[i].size = (size_t)PyBytes_GET_SIZE(value);
        } else if (value != Py_None) {
            return fail("values are bytes or None");
        }
    }
    return 0;
}

static int check_key(const batch_t *b) {
    if (b->style < 0 || b->style > 2 || (b->separator != '.' && b->separator != '/'))
        return fail("no such chunk key encoding");
    if (memchr(b->prefix, 0, b->prefix_size) || (b->prefix_size && b->prefix[0] == '/'))
        return fail("no such prefix");
    return 0;
}

/* Runs a batch that is complete; the numbers of the rows that were not done. */
static PyObject *finish_rows(batch_t *b, int threads) {
    if (threads < 1) threads = 1;
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    b->slices = 1;
    if (b->chain->inner && !b->writing && b->rows < 4 * threads && threads > 1) {
        b->slices = 4 * threads;
        b->seen = calloc((size_t)b->rows + 1, sizeof *b->seen);
        if (!b->seen) return PyErr_NoMemory();
    }
    if (b->rows * b->slices < threads) threads = (int)(b->rows * b->slices);
    b->failed = calloc((size_t)b->rows + 1, sizeof *b->failed);
    if (!b->failed) return PyErr_NoMemory();
    b->python = PyEval_SaveThread();
    run(b, threads);
    PyEval_RestoreThread(b->python);
    if (atomic_load(&b->stop)) return NULL;
    PyObject *result = PyList_New(0);
    for (int64_t i = 0; result && i < b->rows; i++)
        if (atomic_load(&b->failed[i])) {
            PyObject *number = PyLong_FromLongLong(i);
            if (!number || PyList_Append(result, number) != 0) Py_CLEAR(result);
            Py_XDECREF(number);
        }
    return result;
}

/* run(chain, axes, directory, values, prefix, style, separator, array, writing, threads)
 * -> the rows that were not done */
static PyObject *py_run(PyObject *self, PyObject *args) {
    PyObject *capsule, *axes, *values, *array, *kept = NULL, *result = NULL;
    Py_ssize_t prefix_size;
    Py_buffer view = {0};
    int threads;
    batch_t *b = calloc(1, sizeof *b);
    if (!b) return PyErr_NoMemory();
    if (!PyArg_ParseTuple(args, "OO!iOy#iiOpi", &capsule, &PyTuple_Type, &axes, &b->directory,
                          &values, &b->prefix, &prefix_size, &b->style, &b->separator, &array,
                          &b->writing, &threads))
        goto done;
    b->prefix_size = (size_t)prefix_size;
    b->chain = PyCapsule_GetPointer(capsule, "omnizarr.chain");
    if (!b->chain || check_key(b)) goto done;
    if (PyObject_GetBuffer(array, &view, PyBUF_STRIDES | (b->writing ? 0 : PyBUF_WRITABLE)) != 0)
        goto done;
    if (read_array(b, &view, axes)) goto done;
    if (values != Py_None) {
        if (!PyList_Check(values)) {
            fail("values are a list");
            goto done;
        }
        kept = PyList_AsTuple(values);
        if (!kept || read_values(b, kept)) goto done;
    }
    result = finish_rows(b, threads);
done:
    for (int i = 0; i < MAX_AXES; i++) free(b->axes[i].chunk);
    if (view.obj) PyBuffer_Release(&view);
    Py_XDECREF(kept);
    free((void *)b->values);
    free(b->failed);
    free(b->seen);
    free(b);
    return result;
}

/* load_deflate(file) -> whether it has all that gzip and zlib need */
static PyObject *py_load_deflate(PyObject *self, PyObject *args) {
    PyObject *path;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) return NULL;
    int found = deflate_load(PyBytes_AS_STRING(path));
    Py_DECREF(path);
    return PyBool_FromLong(found);
}

static PyMethodDef methods[] = {
    {"load_deflate", py_load_deflate, METH_VARARGS, "Takes libdeflate from a shared library."},
    {"chain", py_chain, METH_VARARGS, "A codec chain bound to chunks of one shape."},
    {"run", py_run, METH_VARARGS, "Reads or writes a batch; the rows that were not done."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernel", "Batches of chunks without the GIL.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernel(void) {
    unsigned char bytes[2][16] = {{0}};
    blosc2_init();
    blosc2_shuffle(2, 16, bytes[0], bytes[1]); /* it chooses its instructions at the first call */
    return PyModule_Create(&definition);
}
