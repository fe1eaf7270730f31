/* The Python side: chains as capsules, and one call for a whole batch. */
#include "columns.h"

#include <blosc2.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS 64
#define FEW 8 /* rows for which a directory is not worth being opened */
#define MAX_INNER (1 << 26)
#define SLICE (1 << 20) /* decoded bytes of a shard that one thread encodes at a time */

static void chain_free(PyObject *capsule) {
    chain_t *c = PyCapsule_GetPointer(capsule, "omnizarr.chain");
    if (!c) return;
    free(c->inner);
    free(c);
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
    if (threads < 2) {
        work(b, interrupted);
        return;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; count < threads - 1; count++)
        if (pthread_create(&started[count], NULL, thread_main, b) != 0) break;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    work(b, interrupted);
    for (int i = 0; i < count; i++) pthread_join(started[i], NULL);
}

/* Encoded chunks in memory, which the tuple keeps alive. */
static int read_values(batch_t *b, PyObject *values) {
    if (PyTuple_GET_SIZE(values) != b->rows) return fail("a value for every row");
    if (b->writing && !(b->stored = calloc((size_t)b->rows + 1, sizeof *b->stored))) {
        PyErr_NoMemory();
        return -1;
    }
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

/* Finds the directory of the keys: it is opened, but for reading a few of them by their paths. */
static int find_directory(batch_t *b, const char *root, size_t size) {
    if (b->writing || b->rows > FEW) {
        b->directory = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return b->directory < 0 ? -1 : 0;
    }
    b->path = malloc(size + b->prefix_size + 1);
    if (!b->path) return -1;
    memcpy(b->path, root, size);
    memcpy(b->path + size, b->prefix, b->prefix_size);
    b->prefix = b->path, b->prefix_size += size;
    b->directory = AT_FDCWD;
    return 0;
}

static int check_key(const batch_t *b) {
    if (b->style < 0 || b->style > 2 || (b->separator != '.' && b->separator != '/'))
        return fail("no such chunk key encoding");
    if (memchr(b->prefix, 0, b->prefix_size) || (b->prefix_size && b->prefix[0] == '/'))
        return fail("no such prefix");
    return 0;
}

/* As many threads as have `small` bytes to do each. */
static int useful_threads(const batch_t *b, int most, long long small) {
    int64_t effort = 0;
    if (most > MAX_THREADS) most = MAX_THREADS;
    for (int64_t n = 0; n < b->rows && effort / most < small; n++) {
        row_t row;
        row_at(b, n, &row);
        effort += row_effort(b, &row);
    }
    int64_t useful = small > 0 ? effort / small : most;
    return useful < 1 ? 1 : useful < most ? (int)useful : most;
}

/* Runs a batch that is complete; the numbers of the rows that were not done. */
static PyObject *finish_rows(batch_t *b, int threads, long long small) {
    threads = useful_threads(b, threads < 1 ? 1 : threads, small);
    b->slices = 1;
    if (b->chain->inner && b->writing && !b->picks && any_plain(b)) {
        int64_t wanted = b->chain->nbytes / SLICE, most = b->chain->inner_count;
        b->slices = wanted < 1 ? 1 : wanted < most ? wanted : most;
        b->jobs = calloc((size_t)b->rows + 1, sizeof *b->jobs);
        if (!b->jobs) return PyErr_NoMemory();
    } else if (b->chain->inner && !b->writing && !b->picks && b->rows < 4 * threads && threads > 1) {
        b->slices = 4 * threads;
        b->seen = calloc((size_t)b->rows + 1, sizeof *b->seen);
        if (!b->seen) return PyErr_NoMemory();
    }
    if (__builtin_mul_overflow(b->rows, b->slices, &(int64_t){0}) && fail("too many rows"))
        return NULL;
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

/* Puts what was stored in memory in the place of what was there before. */
static int give_values(batch_t *b, PyObject *values) {
    for (int64_t i = 0; i < b->rows; i++) {
        value_t *v = &b->stored[i];
        PyObject *value = v->own ? PyBytes_FromStringAndSize((const char *)v->own, (Py_ssize_t)v->size)
                                 : Py_NewRef(Py_None);
        free(v->own);
        v->own = NULL;
        if (!value || PyList_SetItem(values, i, value) != 0) return -1;
    }
    return 0;
}

static void free_batch(batch_t *b) {
    for (int64_t i = 0; b->jobs && i < b->rows; i++) drop_job(b, b->jobs[i]);
    for (int64_t i = 0; b->stored && i < b->rows; i++) free(b->stored[i].own);
    free_columns(b);
    if (b->directory >= 0) close(b->directory);
    free(b->path), free((void *)b->values), free(b->stored);
    free(b->jobs), free(b->failed), free(b->seen), free(b);
}

/* run(chain, plan, root, values, prefix, style, separator, array, writing, sync, leave_absent,
 *     threads, small) -> the rows that were not done, None where the root cannot be opened; what is
 * written to memory comes back in the list `values` */
static PyObject *py_run(PyObject *self, PyObject *args) {
    PyObject *capsule, *plan, *values, *array, *kept = NULL, *result = NULL;
    Py_ssize_t prefix_size, root_size;
    const char *root;
    Py_buffer view = {0};
    int threads;
    long long small;
    batch_t *b = calloc(1, sizeof *b);
    if (!b) return PyErr_NoMemory();
    b->directory = -1;
    if (!PyArg_ParseTuple(args, "OOy#Oy#iiOpppiL", &capsule, &plan, &root, &root_size, &values,
                          &b->prefix, &prefix_size, &b->style, &b->separator, &array,
                          &b->writing, &b->sync, &b->leave_absent, &threads, &small))
        goto done;
    b->prefix_size = (size_t)prefix_size;
    b->chain = PyCapsule_GetPointer(capsule, "omnizarr.chain");
    if (!b->chain || check_key(b)) goto done;
    if (PyObject_GetBuffer(array, &view, PyBUF_STRIDES | (b->writing ? 0 : PyBUF_WRITABLE)) != 0)
        goto done;
    if (read_array(b, &view, plan)) goto done;
    if (values != Py_None) {
        if (!PyList_Check(values)) {
            fail("values are a list");
            goto done;
        }
        kept = PyList_AsTuple(values);
        if (!kept || read_values(b, kept)) goto done;
    } else if (memchr(root, 0, (size_t)root_size) || !root_size || root[root_size - 1] != '/') {
        fail("no such root");
        goto done;
    } else if (find_directory(b, root, (size_t)root_size)) {
        result = Py_NewRef(Py_None);
        goto done;
    }
    result = finish_rows(b, threads, small);
    if (result && b->stored && give_values(b, values)) Py_CLEAR(result);
done:
    if (view.obj) PyBuffer_Release(&view);
    Py_XDECREF(kept);
    free_batch(b);
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
    {"memory", py_memory, METH_VARARGS, "Memory for a large result."},
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
    return memory_init() ? NULL : PyModule_Create(&definition);
}
