/* The Python side: chains as capsules, and one call for a whole batch. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "rows.h"

#include <blosc2.h>
#include <pthread.h>
#include <string.h>

#define MAX_THREADS 64

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

static int read_steps(chain_t *c, PyObject *steps) {
    if (!PyTuple_Check(steps) || PyTuple_GET_SIZE(steps) > MAX_STEPS) return fail("too many steps");
    c->nsteps = (int)PyTuple_GET_SIZE(steps);
    int packed = 0;
    for (int i = 0; i < c->nsteps; i++) {
        step_t *s = &c->steps[i];
        long long block;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(steps, i), "iiiiiiL", &s->kind, &s->level, &s->name,
                              &s->shuffle, &s->typesize, &s->checksum, &block))
            return -1;
        s->blocksize = block;
        if (s->kind < STEP_CRC32C || s->kind > STEP_LZ4) return fail("unknown step");
        if (s->kind != STEP_CRC32C && packed++) return fail("only one step may compress");
        if (s->kind == STEP_BLOSC && (s->typesize < 1 || block < 0)) return fail("blosc");
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
        int axis = c->perm[i];
        if (axis < 0 || axis >= c->ndim || seen[axis]++) return fail("not a permutation");
        if (c->shape[axis] < 1) return fail("a chunk has no elements");
        c->strides[axis] = size;
        if (__builtin_mul_overflow(size, c->shape[axis], &size)) return fail("too large");
    }
    if (size > INT32_MAX) return fail("too large");
    c->nbytes = size;
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
    int64_t order[MAX_AXES];
    c->itemsize = itemsize;
    if (PyTuple_GET_SIZE(shape) > MAX_AXES) {
        fail("too many axes");
        goto bad;
    }
    c->ndim = (int)PyTuple_GET_SIZE(shape);
    if (read_axes(shape, c->ndim, c->shape) || read_axes(perm, c->ndim, order)) goto bad;
    for (int i = 0; i < c->ndim; i++) c->perm[i] = (int)order[i];
    if (fill_size != itemsize || itemsize > MAX_ITEM) {
        fail("the fill value has the wrong size");
        goto bad;
    }
    memcpy(c->fill, fill, (size_t)fill_size);
    if (read_steps(c, steps)) goto bad;
    if (inner != Py_None) {
        chain_t *k = PyCapsule_GetPointer(inner, "omnizarr.chain");
        if (!k) goto bad;
        if (k->inner || k->ndim != c->ndim || k->itemsize != c->itemsize || c->nsteps) {
            fail("not a shard that the kernel knows");
            goto bad;
        }
        c->inner = malloc(sizeof *k);
        if (!c->inner) {
            PyErr_NoMemory();
            goto bad;
        }
        memcpy(c->inner, k, sizeof *k);
        c->inner_count = 1;
        for (int i = 0; i < c->ndim; i++) {
            if (c->perm[i] != i || k->shape[i] < 1 || c->shape[i] % k->shape[i]) {
                fail("inner chunks do not fit the shard");
                goto bad;
            }
            c->counts[i] = c->shape[i] / k->shape[i];
            if (__builtin_mul_overflow(c->inner_count, c->counts[i], &c->inner_count) ||
                c->inner_count > (1 << 26)) {
                fail("too many inner chunks");
                goto bad;
            }
        }
    }
    if (finish(c)) goto bad;
    PyObject *capsule = PyCapsule_New(c, "omnizarr.chain", chain_free);
    if (capsule) return capsule;
bad:
    free(c->inner);
    free(c);
    return NULL;
}

static void *thread_main(void *batch) {
    work(batch);
    return NULL;
}

static void run(batch_t *b, int threads) {
    pthread_t started[MAX_THREADS];
    int count = 0;
    for (; count < threads - 1 && count < MAX_THREADS; count++)
        if (pthread_create(&started[count], NULL, thread_main, b) != 0) break;
    work(b);
    for (int i = 0; i < count; i++) pthread_join(started[i], NULL);
}

/* The columns of one axis: five buffers and a step. */
static int read_axis(PyObject *item, axis_t *axis, Py_buffer *views, int64_t limit) {
    long long step;
    PyObject *columns[5];
    if (!PyArg_ParseTuple(item, "OOOOOL", &columns[0], &columns[1], &columns[2], &columns[3],
                          &columns[4], &step))
        return -1;
    for (int i = 0; i < 5; i++)
        if (PyObject_GetBuffer(columns[i], &views[i], PyBUF_SIMPLE) != 0) {
            while (i--) PyBuffer_Release(&views[i]);
            return -1;
        }
    Py_ssize_t rows = views[4].len;
    for (int i = 0; i < 4; i++)
        if (views[i].len != rows * 8) {
            for (int j = 0; j < 5; j++) PyBuffer_Release(&views[j]);
            return fail("columns of different length");
        }
    axis->length = rows;
    axis->step = step;
    axis->chunk = views[0].buf;
    axis->inner = views[1].buf;
    axis->outer = views[2].buf;
    axis->count = views[3].buf;
    axis->whole = views[4].buf;
    for (Py_ssize_t k = 0; k < rows; k++) {
        int64_t last;
        int bad = step < 1 || axis->chunk[k] < 0 || axis->inner[k] < 0 || axis->outer[k] < 0 ||
                  axis->count[k] < 1 ||
                  __builtin_mul_overflow(axis->count[k] - 1, (int64_t)step, &last) ||
                  __builtin_add_overflow(last, axis->inner[k], &last) || last >= limit;
        if (bad) {
            for (int j = 0; j < 5; j++) PyBuffer_Release(&views[j]);
            return fail("a row reaches out of its chunk");
        }
    }
    return 0;
}

/* run(chain, axes, directory, values, prefix, style, separator, address, strides, writing, threads)
 * -> the rows that were not done */
static PyObject *py_run(PyObject *self, PyObject *args) {
    PyObject *capsule, *axes, *values, *strides, *result = NULL;
    const char *prefix;
    Py_ssize_t prefix_size;
    unsigned long long address;
    int directory, style, separator, writing, threads, opened = 0;
    Py_buffer views[MAX_AXES][5];
    value_t *found = NULL;
    batch_t *b = calloc(1, sizeof *b);
    if (!b) return PyErr_NoMemory();
    if (!PyArg_ParseTuple(args, "OO!iOy#iiKO!pi", &capsule, &PyTuple_Type, &axes, &directory,
                          &values, &prefix, &prefix_size, &style, &separator, &address,
                          &PyTuple_Type, &strides, &writing, &threads))
        goto done;
    const chain_t *c = PyCapsule_GetPointer(capsule, "omnizarr.chain");
    if (!c) goto done;
    if (PyTuple_GET_SIZE(axes) != c->ndim || prefix_size > PATH_MAX / 2) {
        fail("axes or prefix do not fit");
        goto done;
    }
    if (read_axes(strides, c->ndim, b->strides)) goto done;
    b->chain = c;
    b->rows = 1;
    for (int i = 0; i < c->ndim; i++) {
        if (read_axis(PyTuple_GET_ITEM(axes, i), &b->axes[i], views[i], c->shape[i])) goto done;
        opened++;
        if (__builtin_mul_overflow(b->rows, b->axes[i].length, &b->rows)) {
            fail("too many rows");
            goto done;
        }
    }
    b->directory = directory;
    b->prefix_size = (int)prefix_size;
    memcpy(b->prefix, prefix, (size_t)prefix_size);
    b->style = style;
    b->separator = separator;
    b->array = (unsigned char *)(uintptr_t)address;
    b->writing = writing;
    if (values != Py_None) {
        if (!PyList_Check(values) || PyList_GET_SIZE(values) != b->rows || writing) {
            fail("a value for every row");
            goto done;
        }
        found = calloc((size_t)b->rows + 1, sizeof *found);
        if (!found) {
            PyErr_NoMemory();
            goto done;
        }
        for (int64_t i = 0; i < b->rows; i++) {
            PyObject *value = PyList_GET_ITEM(values, i);
            if (PyBytes_Check(value)) {
                found[i].data = (const unsigned char *)PyBytes_AS_STRING(value);
                found[i].size = (size_t)PyBytes_GET_SIZE(value);
            } else if (value != Py_None) {
                fail("values are bytes or None");
                goto done;
            }
        }
        b->values = found;
    }
    if (threads < 1) threads = 1;
    b->slices = 1;
    if (c->inner && !writing && b->rows < 4 * threads && threads > 1) b->slices = 4 * threads;
    if (b->rows * b->slices < threads) threads = (int)(b->rows * b->slices);
    b->failed = calloc((size_t)b->rows + 1, 1);
    if (!b->failed) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS;
    run(b, threads);
    Py_END_ALLOW_THREADS;
    result = PyList_New(0);
    for (int64_t i = 0; result && i < b->rows; i++)
        if (b->failed[i]) {
            PyObject *number = PyLong_FromLongLong(i);
            if (!number || PyList_Append(result, number) != 0) Py_CLEAR(result);
            Py_XDECREF(number);
        }
done:
    for (int i = 0; i < opened; i++)
        for (int j = 0; j < 5; j++) PyBuffer_Release(&views[i][j]);
    free(found);
    free(b->failed);
    free(b);
    return result;
}

static PyMethodDef methods[] = {
    {"chain", py_chain, METH_VARARGS, "A codec chain bound to chunks of one shape."},
    {"run", py_run, METH_VARARGS, "Reads or writes a batch; the rows that were not done."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernel", "Batches of chunks without the GIL.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernel(void) {
    blosc2_init();
    return PyModule_Create(&definition);
}
