/* The module omnizarr.bulk._blocks: arrays come by the buffer protocol, and the rows of the result
 * are made one after the other. */
#include "blocks.h"

#include "status.h"

#include <string.h>

enum { MAX_AXES = 32 };
enum { PIECE = 2048 }; /* elements of a row of the source that are reduced at once */

/* Return 'u', 'i' or 'f', or 0 for other types and for the other byte order. */
static char kind_of(const Py_buffer *view) {
    const char *format = view->format;
    if (format == NULL) return 0;
    if (*format == (PY_LITTLE_ENDIAN ? '<' : '>') || *format == '=') format++;
    if (strlen(format) != 1) return 0;
    if (strchr("bhilq", *format)) return 'i';
    if (strchr("?BHILQ", *format)) return 'u';
    return strchr("fd", *format) ? 'f' : 0;
}

/* Return 1 for elements that are aligned and adjacent along the last axis. */
static int is_aligned(const Py_buffer *view) {
    Py_ssize_t off = (Py_ssize_t)((size_t)view->buf % (size_t)view->itemsize);
    for (int i = 0; i < view->ndim; i++) off |= view->strides[i] % view->itemsize;
    Py_ssize_t last = view->ndim - 1;
    return !off && (view->strides[last] == view->itemsize || view->shape[last] == 1);
}

/* Return the offsets of the rows of a block, to be freed with PyMem_Free by the caller. */
static ptrdiff_t *row_offsets(const Py_buffer *in, const Py_ssize_t *factors, Py_ssize_t rows) {
    ptrdiff_t *offsets = PyMem_Malloc((size_t)rows * sizeof *offsets); /* owned by the caller */
    if (offsets == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t r = 0; r < rows; r++) {
        Py_ssize_t left = r, at = 0;
        for (int i = in->ndim - 2; i >= 0; i--) {
            at += left % factors[i] * in->strides[i];
            left /= factors[i];
        }
        offsets[r] = at;
    }
    return offsets;
}

static void reduce_all(oz_reduction *reduction, const oz_blocks *blocks, const Py_buffer *in,
                       const Py_buffer *out, const Py_ssize_t *factors, void *scratch) {
    const int last = out->ndim - 1;
    const Py_ssize_t length = out->shape[last];
    const Py_ssize_t step = blocks->factor < PIECE ? PIECE / blocks->factor : 1;
    Py_ssize_t index[MAX_AXES] = {0};
    const char *from = in->buf;
    char *to = out->buf;
    for (;;) {
        for (Py_ssize_t i = 0; i < length; i += step)
            reduction(blocks, from + i * blocks->factor * in->itemsize, to + i * out->itemsize,
                      length - i < step ? length - i : step, scratch);
        int axis = last - 1;
        for (; axis >= 0; axis--) {
            from += factors[axis] * in->strides[axis];
            to += out->strides[axis];
            if (++index[axis] < out->shape[axis]) break;
            from -= index[axis] * factors[axis] * in->strides[axis];
            to -= index[axis] * out->strides[axis];
            index[axis] = 0;
        }
        if (axis < 0) return;
    }
}

/* Set `*done` to 0 where there is no reduction for these types. */
static oz_status reduce_checked(int method, const Py_buffer *in, const Py_buffer *out,
                                const Py_ssize_t *factors, int *done) {
    *done = 1;
    Py_ssize_t count = 1, size = 1;
    for (int i = 0; i < in->ndim; i++) {
        if (factors[i] < 1 || out->shape[i] > PY_SSIZE_T_MAX / factors[i] ||
            in->shape[i] != out->shape[i] * factors[i] || count > PY_SSIZE_T_MAX / factors[i]) {
            PyErr_SetString(PyExc_ValueError, "the source does not consist of whole blocks");
            return OZ_PYTHON;
        }
        count *= factors[i];
        size *= out->shape[i] > 0;
    }
    if (!size) return OZ_OK;
    oz_reduction *reduction = oz_find_reduction(method, kind_of(in), in->itemsize, count);
    if (reduction == NULL || kind_of(out) != kind_of(in) || out->itemsize != in->itemsize ||
        !is_aligned(in) || !is_aligned(out)) {
        *done = 0;
        return OZ_OK;
    }
    oz_blocks blocks = {NULL, count / factors[in->ndim - 1], factors[in->ndim - 1]};
    ptrdiff_t *offsets = row_offsets(in, factors, blocks.rows); /* owned: freed below */
    if (offsets == NULL) return OZ_PYTHON;
    blocks.offsets = offsets;
    size_t room = (size_t)(blocks.factor < PIECE ? PIECE : blocks.factor);
    void *scratch = PyMem_Calloc(room, 8); /* owned: freed below */
    if (scratch == NULL) {
        PyMem_Free(offsets);
        PyErr_NoMemory();
        return OZ_PYTHON;
    }
    Py_BEGIN_ALLOW_THREADS;
    reduce_all(reduction, &blocks, in, out, factors, scratch);
    Py_END_ALLOW_THREADS;
    PyMem_Free(scratch);
    PyMem_Free(offsets);
    return OZ_OK;
}

/* reduce(method, values, out, factors) -> False where the types are not supported */
static PyObject *reduce(PyObject *Py_UNUSED(module), PyObject *args) {
    int method, done = 0;
    PyObject *values, *result, *given;
    if (!PyArg_ParseTuple(args, "iOOO!", &method, &values, &result, &PyTuple_Type, &given))
        return NULL;
    Py_buffer in, out;
    /* NumPy offers no buffer of some types, such as dates: not done here. */
    if (PyObject_GetBuffer(values, &in, PyBUF_STRIDED_RO | PyBUF_FORMAT) < 0) {
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    if (PyObject_GetBuffer(result, &out, PyBUF_STRIDED | PyBUF_FORMAT) < 0) {
        PyBuffer_Release(&in);
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    oz_status status = OZ_OK;
    Py_ssize_t factors[MAX_AXES];
    int fits = in.ndim == out.ndim && in.ndim == PyTuple_GET_SIZE(given) && in.ndim <= MAX_AXES;
    if (!fits || method < 0 || method >= OZ_METHODS) {
        PyErr_SetString(PyExc_ValueError, "axes, factors and the method do not fit");
    } else if (in.ndim > 0) {
        for (int i = 0; i < in.ndim; i++) {
            factors[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(given, i));
            if (factors[i] == -1 && PyErr_Occurred()) break;
        }
        if (!PyErr_Occurred()) status = reduce_checked(method, &in, &out, factors, &done);
    }
    PyBuffer_Release(&out);
    PyBuffer_Release(&in);
    return status || PyErr_Occurred() ? NULL : PyBool_FromLong(done);
}

static PyMethodDef functions[] = {
    {"reduce", reduce, METH_VARARGS,
     "Fill a result from whole blocks of a source; False where the types are not supported."},
    {"weighted_sums", oz_weighted_sums, METH_VARARGS,
     "Fill a result with weighted sums along an axis, one every `step` elements."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_blocks",
    .m_doc = "Reduce blocks of arrays.",
    .m_size = 0,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__blocks(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || PyModule_AddIntConstant(module, "MEAN", OZ_MEAN) < 0 ||
        PyModule_AddIntConstant(module, "MAX", OZ_MAX) < 0 ||
        PyModule_AddIntConstant(module, "MODE", OZ_MODE) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
