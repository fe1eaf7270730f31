/* Sums of neighbours along one axis, each with its weight; in the order of NumPy's form. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "blocks.h"

#include <string.h>

/* `in` has `outer` times `length` rows of `inner` elements; every `step` rows begin a sum. */
typedef struct {
    ptrdiff_t outer, length, inner, step, taps, made;
} Rows;

#define WEIGH(NAME, T)                                                                             \
    static void NAME(const Rows *rows, const T *restrict in, const T *restrict weights,            \
                     T *restrict out) {                                                            \
        const ptrdiff_t inner = rows->inner;                                                       \
        for (ptrdiff_t o = 0; o < rows->outer; o++) {                                              \
            const T *all = in + o * rows->length * inner;                                          \
            for (ptrdiff_t i = 0; i < rows->made; i++, out += inner) {                             \
                const T *row = all + i * rows->step * inner;                                       \
                if (inner == 1) {                                                                  \
                    T sum = row[0] * weights[0];                                                   \
                    for (ptrdiff_t k = 1; k < rows->taps; k++) sum += row[k] * weights[k];         \
                    *out = sum;                                                                    \
                    continue;                                                                      \
                }                                                                                  \
                for (ptrdiff_t x = 0; x < inner; x++) out[x] = row[x] * weights[0];                \
                for (ptrdiff_t k = 1; k < rows->taps; k++) {                                       \
                    row += inner;                                                                  \
                    for (ptrdiff_t x = 0; x < inner; x++) out[x] += row[x] * weights[k];           \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

WEIGH(weigh_f4, float)
WEIGH(weigh_f8, double)

/* Whether the three fit together: out is in, but shorter along `axis`. */
static int fits(const Py_buffer *in, const Py_buffer *weights, const Py_buffer *out, int axis,
                Rows *rows) {
    if (in->ndim != out->ndim || weights->ndim != 1 || axis < 0 || axis >= in->ndim) return 0;
    if (in->itemsize != out->itemsize || in->itemsize != weights->itemsize) return 0;
    for (int i = 0; i < in->ndim; i++) {
        if (i != axis && in->shape[i] != out->shape[i]) return 0;
        if (i < axis) rows->outer *= in->shape[i];
        if (i > axis) rows->inner *= in->shape[i];
    }
    rows->length = in->shape[axis];
    rows->made = out->shape[axis];
    rows->taps = weights->shape[0];
    if (rows->step < 1 || rows->taps < 1 || rows->taps > rows->length) return 0;
    return rows->made <= (rows->length - rows->taps) / rows->step + 1;
}

PyObject *weigh(PyObject *module, PyObject *args) {
    PyObject *given[3];
    int axis;
    Rows rows = {1, 0, 1, 0, 0, 0};
    if (!PyArg_ParseTuple(args, "OOOin", &given[0], &given[1], &given[2], &axis, &rows.step))
        return NULL;
    Py_buffer views[3];
    const Py_buffer *in = &views[0], *weights = &views[1], *out = &views[2];
    int got = 0;
    for (; got < 3; got++) {
        int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (got == 2 ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(given[got], &views[got], flags) < 0) break;
    }
    if (got == 3) {
        int f4 = 1, f8 = 1;
        for (int i = 0; i < 3; i++) {
            f4 &= strcmp(views[i].format, "f") == 0;
            f8 &= strcmp(views[i].format, "d") == 0;
        }
        if ((!f4 && !f8) || !fits(in, weights, out, axis, &rows)) {
            PyErr_SetString(PyExc_ValueError, "values, weights and the result do not fit");
        } else {
            Py_BEGIN_ALLOW_THREADS;
            if (f4) weigh_f4(&rows, in->buf, weights->buf, out->buf);
            else weigh_f8(&rows, in->buf, weights->buf, out->buf);
            Py_END_ALLOW_THREADS;
        }
    }
    while (got-- > 0) PyBuffer_Release(&views[got]);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}
