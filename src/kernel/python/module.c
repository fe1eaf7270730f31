/* The module omnizarr.engine._kernel: one call reads or writes a whole batch. */
#include "python/arguments.h"

#include "atomic_file.h"
#include "chunks/batch.h"

#include <blosc2.h>
#include <fcntl.h>
#include <string.h>

#define FEW_ROWS 8 /* for which opening the directory takes longer than using paths */

/* Arguments of `run` that the batch does not hold. */
typedef struct {
    PyObject *pipeline, *plan, *values, *array; /* borrowed from the arguments */
    PyObject *kept;                             /* new reference: the values, unchanged by others */
    const char *root;                           /* borrowed from the arguments */
    Py_ssize_t root_size;
    Py_buffer view; /* owned: released by release_arguments, as the next */
    Py_buffer *views;
    Py_ssize_t view_count;
    int threads, tell_missing;
    long long min_bytes;
    const char *metadata; /* borrowed: the path of the array's metadata, or NULL */
    unsigned long long identity; /* that its file has to have */
} run_arguments;

/* Return 1 where the array is no longer the one that the caller knows. */
static int was_replaced(const run_arguments *given) {
    return given->metadata && oz_path_identity(given->metadata) != given->identity;
}

/* Return 1 where the Python handler of a signal has raised; for the calling thread only. */
static int signal_raised(oz_batch *batch) {
    PyEval_RestoreThread(batch->python);
    int raised = PyErr_CheckSignals();
    batch->python = PyEval_SaveThread();
    return raised;
}

/* Take the values in memory, any buffers, which stay locked until the end. */
static oz_status take_buffers(oz_batch *batch, run_arguments *given) {
    PyObject *values = given->kept;
    size_t rows = (size_t)batch->rows;
    if (PyTuple_GET_SIZE(values) != batch->rows) return oz_raise("expected a value for every row");
    batch->values = calloc(rows + 1, sizeof *batch->values);
    if (batch->writing) batch->stored = calloc(rows + 1, sizeof *batch->stored);
    given->views = calloc(rows + 1, sizeof *given->views);
    if (!batch->values || !given->views || (batch->writing && !batch->stored)) {
        PyErr_NoMemory();
        return OZ_PYTHON;
    }
    for (int64_t i = 0; i < batch->rows; i++) {
        PyObject *value = PyTuple_GET_ITEM(values, i);
        Py_buffer *view = &given->views[given->view_count];
        if (value == Py_None) continue;
        if (PyObject_GetBuffer(value, view, PyBUF_SIMPLE) != 0) return OZ_PYTHON;
        given->view_count++;
        batch->values[i].data = view->buf ? view->buf : (const unsigned char *)"";
        batch->values[i].size = (size_t)view->len;
    }
    return OZ_OK;
}

/* Open the directory of the keys, or make a prefix of its path to read a few of them. */
static oz_status open_directory(oz_batch *batch, const char *root, size_t size) {
    if (batch->writing || batch->rows > FEW_ROWS) {
        batch->directory = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        batch->local = batch->directory >= 0 && batch->writing && batch->rows > FEW_ROWS &&
                       oz_is_local(batch->directory);
        return batch->directory < 0 ? OZ_SYSTEM : OZ_OK;
    }
    batch->path = malloc(size + batch->prefix_size + 1);
    if (!batch->path) return OZ_NO_MEMORY;
    memcpy(batch->path, root, size);
    memcpy(batch->path + size, batch->prefix, batch->prefix_size);
    batch->prefix = batch->path, batch->prefix_size += size;
    batch->directory = AT_FDCWD;
    return OZ_OK;
}

static oz_status open_root(oz_batch *batch, const run_arguments *given) {
    size_t size = (size_t)given->root_size;
    if (!size || memchr(given->root, 0, size) || given->root[size - 1] != '/')
        return oz_raise("invalid root");
    return open_directory(batch, given->root, size);
}

static oz_status check_key_encoding(const oz_batch *batch) {
    int separator = batch->separator;
    if (batch->key_style < 0 || batch->key_style > 2 || (separator != '.' && separator != '/'))
        return oz_raise("unknown chunk key encoding");
    if (memchr(batch->prefix, 0, batch->prefix_size) ||
        (batch->prefix_size && batch->prefix[0] == '/'))
        return oz_raise("invalid prefix");
    return OZ_OK;
}

static oz_status take_arguments(oz_batch *batch, PyObject *args, run_arguments *given) {
    Py_ssize_t prefix_size;
    if (!PyArg_ParseTuple(args, "OOy#Oy#iiOpppiL|yK", &given->pipeline, &given->plan, &given->root,
                          &given->root_size, &given->values, &batch->prefix, &prefix_size,
                          &batch->key_style, &batch->separator, &given->array, &batch->writing,
                          &batch->sync, &batch->skip_missing, &given->threads, &given->min_bytes,
                          &given->metadata, &given->identity))
        return OZ_PYTHON;
    batch->prefix_size = (size_t)prefix_size;
    batch->pipeline = oz_pipeline_of(given->pipeline);
    if (!batch->pipeline || check_key_encoding(batch)) return OZ_PYTHON;
    int flags = PyBUF_STRIDES | (batch->writing ? 0 : PyBUF_WRITABLE);
    if (PyObject_GetBuffer(given->array, &given->view, flags) != 0) return OZ_PYTHON;
    if (oz_take_plan(batch, &given->view, given->plan)) return OZ_PYTHON;
    if (given->values != Py_None) {
        if (!PyList_Check(given->values)) return oz_raise("values must be a list");
        given->kept = PyList_AsTuple(given->values);
        return given->kept ? take_buffers(batch, given) : OZ_PYTHON;
    }
    oz_status status = open_root(batch, given);
    return !status && was_replaced(given) ? OZ_UNSUPPORTED : status;
}

/* Take the arguments of `run_rows`. */
static oz_status take_row_arguments(oz_batch *batch, PyObject *args, run_arguments *given) {
    PyObject *keys;
    int is_scalar;
    if (!PyArg_ParseTuple(args, "OOOy#OOpppppiL", &given->pipeline, &given->plan, &keys,
                          &given->root, &given->root_size, &given->values, &given->array,
                          &is_scalar, &batch->writing, &batch->sync, &batch->skip_missing,
                          &given->tell_missing, &given->threads, &given->min_bytes))
        return OZ_PYTHON;
    batch->prefix = "";
    batch->pipeline = oz_pipeline_of(given->pipeline);
    if (!batch->pipeline) return OZ_PYTHON;
    int flags = PyBUF_STRIDES | (batch->writing ? 0 : PyBUF_WRITABLE);
    if (PyObject_GetBuffer(given->array, &given->view, flags) != 0) return OZ_PYTHON;
    oz_status status = oz_take_listed_rows(batch, &given->view, is_scalar, given->plan, keys);
    if (status) return status;
    if (given->tell_missing && !(batch->missing = calloc((size_t)batch->rows + 1, 1)))
        return OZ_NO_MEMORY;
    if (given->values == Py_None) {
        if (!batch->listed.keys) return oz_raise("files need keys");
        return open_root(batch, given);
    }
    if (!PyList_Check(given->values)) return oz_raise("values must be a list");
    given->kept = PyList_AsTuple(given->values);
    return given->kept ? take_buffers(batch, given) : OZ_PYTHON;
}

static void release_arguments(run_arguments *given) {
    if (given->view.obj) PyBuffer_Release(&given->view);
    for (Py_ssize_t i = 0; i < given->view_count; i++) PyBuffer_Release(&given->views[i]);
    free(given->views);
    Py_XDECREF(given->kept);
}

static oz_status append_number(PyObject *list, int64_t value) {
    PyObject *number = PyLong_FromLongLong(value);
    oz_status status = number && PyList_Append(list, number) == 0 ? OZ_OK : OZ_PYTHON;
    Py_XDECREF(number);
    return status;
}

/* Return a list of the rows that have a mark. */
static PyObject *list_marked(const atomic_uchar *marks, int64_t rows) {
    PyObject *result = PyList_New(0);
    for (int64_t i = 0; result && i < rows; i++)
        if (atomic_load(&marks[i]) && append_number(result, i)) Py_CLEAR(result);
    return result;
}

/* Replace the values in the list by those that were stored in memory. */
static oz_status give_values(oz_batch *batch, PyObject *values) {
    for (int64_t i = 0; i < batch->rows; i++) {
        oz_value *v = &batch->stored[i];
        const char *bytes = (const char *)v->own;
        PyObject *value =
            bytes ? PyBytes_FromStringAndSize(bytes, (Py_ssize_t)v->size) : Py_NewRef(Py_None);
        free(v->own);
        v->own = NULL;
        if (!value || PyList_SetItem(values, i, value) != 0) return OZ_PYTHON;
    }
    return OZ_OK;
}

static PyObject *run_batch(oz_batch *batch, run_arguments *given) {
    oz_status status = oz_batch_prepare(batch, &given->threads, given->min_bytes);
    if (status == OZ_NO_MEMORY) return PyErr_NoMemory();
    if (status) {
        oz_raise("too many rows");
        return NULL;
    }
    batch->python = PyEval_SaveThread();
    oz_batch_run(batch, given->threads, signal_raised);
    PyEval_RestoreThread(batch->python);
    if (atomic_load(&batch->stop)) return NULL;
    PyObject *result = list_marked(batch->statuses, batch->rows);
    if (result && batch->stored && give_values(batch, given->values)) Py_CLEAR(result);
    return result;
}

typedef oz_status argument_taker(oz_batch *batch, PyObject *args, run_arguments *given);

/* Return the rows that were not done, a list; with `missing` also those that have no value. */
static PyObject *take_and_run(PyObject *args, argument_taker *take) {
    run_arguments given = {0};
    PyObject *result = NULL;
    oz_batch *batch = calloc(1, sizeof *batch); /* owned: freed below */
    if (!batch) return PyErr_NoMemory();
    batch->directory = -1;
    oz_status status = take(batch, args, &given);
    if (status == OZ_OK) result = run_batch(batch, &given);
    else if (status != OZ_PYTHON) result = Py_NewRef(Py_None);
    if (result && batch->missing && result != Py_None) {
        PyObject *missing = list_marked(batch->missing, batch->rows), *left = result;
        result = missing ? PyTuple_Pack(2, left, missing) : NULL;
        Py_DECREF(left);
        Py_XDECREF(missing);
    }
    release_arguments(&given);
    oz_free_plan(batch);
    oz_batch_free(batch);
    return result;
}

/* run_rows(...) -> as `run`; None also for rows that are not boxes of the chunk and of the array
 *
 * The rows are listed one by one. With `tell_missing` it returns the rows that were not done, and
 * those that have no value. */
static PyObject *run_rows(PyObject *Py_UNUSED(module), PyObject *args) {
    return take_and_run(args, take_row_arguments);
}

/* run(...) -> list of the rows that were not done, None where the root cannot be opened
 *
 * The arguments are in omnizarr/engine/_kernel.pyi.
 * Values that are written to memory come back in the list `values`. */
static PyObject *run(PyObject *Py_UNUSED(module), PyObject *args) {
    return take_and_run(args, take_arguments);
}

/* Allocate the result of a selection, without the axes of integers, and have the batch fill it. */
static PyObject *allocate_result(oz_batch *batch, const oz_selected *axes, PyObject *type,
                                 run_arguments *given) {
    int ndim = batch->pipeline->ndim, kept = 0;
    for (int i = 0; i < ndim; i++) kept += axes[i].kept;
    PyObject *shape = PyTuple_New(kept), *result = NULL; /* new references */
    for (int i = 0, k = 0; shape && i < ndim; i++) {
        if (!axes[i].kept) continue;
        PyObject *length = PyLong_FromLongLong(axes[i].run.count);
        if (length) PyTuple_SET_ITEM(shape, k++, length);
        else Py_CLEAR(shape);
    }
    if (shape) result = PyObject_CallFunctionObjArgs(given->array, shape, type, NULL);
    Py_XDECREF(shape);
    if (!result) return NULL;
    const Py_buffer *view = &given->view;
    int fits = !PyObject_GetBuffer(result, &given->view, PyBUF_STRIDES | PyBUF_WRITABLE) &&
               view->ndim == kept && view->itemsize == batch->pipeline->itemsize;
    for (int i = 0, k = 0; fits && i < ndim; i++) {
        batch->strides[i] = axes[i].kept ? view->strides[k] : 0;
        if (axes[i].kept) fits = view->shape[k++] == axes[i].run.count;
    }
    batch->array = view->buf;
    if (fits) return result;
    if (!PyErr_Occurred()) oz_raise("the array does not fit the chunks");
    Py_DECREF(result);
    return NULL;
}

/* Return the element of an array without axes. */
static PyObject *take_scalar(PyObject *array) {
    PyObject *none = PyTuple_New(0); /* new reference */
    PyObject *scalar = none ? PyObject_GetItem(array, none) : NULL;
    Py_XDECREF(none);
    return scalar;
}

/* Take the arguments of `read_small` and return the array to fill; NULL with the status of what it
 * declines. */
static PyObject *take_small(oz_batch *batch, PyObject *args, run_arguments *given,
                            oz_status *status, PyObject **counts) {
    PyObject *array, *selection, *shape, *type; /* borrowed from the arguments */
    Py_ssize_t prefix_size;
    oz_selected axes[OZ_MAX_AXES];
    *status = OZ_PYTHON;
    if (!PyArg_ParseTuple(args, "O!OyK|O!", &PyTuple_Type, &array, &selection, &given->metadata,
                          &given->identity, &PyList_Type, counts) ||
        !PyArg_ParseTuple(array, "OO!y#y#iiOOL", &given->pipeline, &PyTuple_Type, &shape,
                          &given->root, &given->root_size, &batch->prefix, &prefix_size,
                          &batch->key_style, &batch->separator, &given->array, &type,
                          &given->min_bytes))
        return NULL;
    batch->prefix_size = (size_t)prefix_size;
    batch->pipeline = oz_pipeline_of(given->pipeline);
    if (!batch->pipeline || check_key_encoding(batch)) return NULL;
    if (PyTuple_GET_SIZE(shape) != batch->pipeline->ndim || given->min_bytes < 0 ||
        given->min_bytes > INT32_MAX) {
        oz_raise("invalid array");
        return NULL;
    }
    if ((*status = oz_take_selection(selection, shape, axes))) return NULL;
    int64_t bytes = batch->pipeline->itemsize;
    for (int i = 0; i < batch->pipeline->ndim; i++)
        if (__builtin_mul_overflow(bytes, axes[i].run.count, &bytes) ||
            bytes >= 2 * given->min_bytes) {
            *status = OZ_UNSUPPORTED;
            return NULL;
        }
    if ((*status = oz_cut_selection(batch, axes, FEW_ROWS))) return NULL;
    if (!oz_batch_is_small(batch, given->min_bytes)) *status = OZ_UNSUPPORTED;
    if (*status || (*status = open_root(batch, given))) return NULL;
    return allocate_result(batch, axes, type, given);
}

/* read_small(array, selection, metadata, identity, counts) -> result, None where that takes longer
 *     or fails
 *
 * One call from the selection to its values; None also where a chunk is missing, or several were
 * read, and the array may have been replaced meanwhile. Whatever it does not do, the caller does
 * with a plan; so wrong selections and damaged chunks raise the same errors. The number of chunks
 * goes into the list `counts`, if there is one. */
static PyObject *read_small(PyObject *Py_UNUSED(module), PyObject *args) {
    run_arguments given = {0};
    oz_status status;
    oz_batch *batch = calloc(1, sizeof *batch); /* owned: freed below */
    if (!batch) return PyErr_NoMemory();
    batch->directory = -1, given.threads = 1;
    PyObject *counts = NULL, *left, *result = NULL; /* `counts` is borrowed */
    PyObject *array = take_small(batch, args, &given, &status, &counts);
    left = array ? run_batch(batch, &given) : NULL;
    int several = batch->rows > 1 || atomic_load(&batch->absent);
    if (left && PyList_GET_SIZE(left) == 0 && !(several && was_replaced(&given)))
        result = given.view.ndim ? Py_NewRef(array) : take_scalar(array);
    else if (left || (!array && status != OZ_OK && status != OZ_PYTHON))
        result = Py_NewRef(Py_None);
    if (result && counts && append_number(counts, batch->rows)) Py_CLEAR(result);
    Py_XDECREF(left);
    Py_XDECREF(array);
    release_arguments(&given);
    oz_free_plan(batch);
    oz_batch_free(batch);
    return result;
}

/* identity(path) -> a number that changes when a file is replaced; 1 where there is none */
static PyObject *identity(PyObject *Py_UNUSED(module), PyObject *path) {
    const char *text = PyBytes_AsString(path);
    return text ? PyLong_FromUnsignedLongLong(oz_path_identity(text)) : NULL;
}

/* load_deflate(file) -> True where it has all functions that gzip and zlib need */
static PyObject *load_deflate(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *path;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) return NULL;
    oz_status status = oz_deflate_load(PyBytes_AS_STRING(path));
    Py_DECREF(path);
    return PyBool_FromLong(status == OZ_OK);
}

static PyMethodDef methods[] = {
    {"identity", identity, METH_O, "Return a number that changes when a file is replaced."},
    {"load_deflate", load_deflate, METH_VARARGS, "Use the libdeflate in a shared library."},
    {"pipeline", oz_pipeline_new, METH_VARARGS, "Return a codec pipeline for chunks of one shape."},
    {"memory", oz_result_memory_new, METH_VARARGS, "Return memory for a large result."},
    {"read_small", read_small, METH_VARARGS, "Return a selection that takes little time."},
    {"run", run, METH_VARARGS, "Read or write a batch; return the rows that were not done."},
    {"run_rows", run_rows, METH_VARARGS, "Read or write rows that are listed one by one."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_kernel",
    .m_doc = "Read and write batches of chunks without the GIL.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__kernel(void) {
    unsigned char bytes[2][16] = {{0}};
    blosc2_init();
    blosc2_shuffle(2, 16, bytes[0], bytes[1]); /* it detects the processor in the first call */
    return oz_result_memory_init() || oz_plan_init() ? NULL : PyModule_Create(&definition);
}
