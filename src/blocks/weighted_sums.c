/* Weighted sums of neighbours along one axis, added in the same order as NumPy does. */
#include "blocks.h"

#include "status.h"

#include <string.h>

/* `in` has `outer` times `length` rows of `inner` elements; every `step` rows a sum of `taps` rows
 * begins, and there are `sums` of them. */
typedef struct {
    ptrdiff_t outer, length, inner, step, taps, sums;
} sum_shape;

#define WEIGHTED_SUMS(NAME, T)                                                               \
    static void NAME(const sum_shape *rows, const T *restrict in, const T *restrict weights, \
                     T *restrict out) {                                                      \
        const ptrdiff_t inner = rows->inner;                                                 \
        for (ptrdiff_t o = 0; o < rows->outer; o++) {                                        \
            const T *all = in + o * rows->length * inner;                                    \
            for (ptrdiff_t i = 0; i < rows->sums; i++, out += inner) {                       \
                const T *row = all + i * rows->step * inner;                                 \
                if (inner == 1) {                                                            \
                    T sum = row[0] * weights[0];                                             \
                    for (ptrdiff_t k = 1; k < rows->taps; k++) sum += row[k] * weights[k];   \
                    *out = sum;                                                              \
                    continue;                                                                \
                }                                                                            \
                for (ptrdiff_t x = 0; x < inner; x++) out[x] = row[x] * weights[0];          \
                for (ptrdiff_t k = 1; k < rows->taps; k++) {                                 \
                    row += inner;                                                            \
                    for (ptrdiff_t x = 0; x < inner; x++) out[x] += row[x] * weights[k];     \
                }                                                                            \
            }                                                                                \
        }                                                                                    \
    }

WEIGHTED_SUMS(sum_f4, float)
WEIGHTED_SUMS(sum_f8, double)

/* Complete `rows` from shapes that match: `out` is like `in`, but shorter along `axis`. */
static oz_status match_shapes(const Py_buffer *in, const Py_buffer *weights, const Py_buffer *out,
                              int axis, sum_shape *rows) {
    if (in->ndim != out->ndim || weights->ndim != 1 || axis < 0 || axis >= in->ndim)
        return OZ_INVALID;
    if (in->itemsize != out->itemsize || in->itemsize != weights->itemsize) return OZ_INVALID;
    for (int i = 0; i < in->ndim; i++) {
        if (i != axis && in->shape[i] != out->shape[i]) return OZ_INVALID;
        if (i < axis) rows->outer *= in->shape[i];
        if (i > axis) rows->inner *= in->shape[i];
    }
    rows->length = in->shape[axis];
    rows->sums = out->shape[axis];
    rows->taps = weights->shape[0];
    if (rows->step < 1 || rows->taps < 1 || rows->taps > rows->length) return OZ_INVALID;
    return rows->sums <= (rows->length - rows->taps) / rows->step + 1 ? OZ_OK : OZ_INVALID;
}

PyObject *oz_weighted_sums(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *given[3];
    int axis;
    sum_shape rows = {1, 0, 1, 0, 0, 0};
    if (!PyArg_ParseTuple(args, "OOOin", &given[0], &given[1], &given[2], &axis, &rows.step))
        return NULL;
    Py_buffer views[3]; /* owned: released below */
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
        if ((!f4 && !f8) || match_shapes(in, weights, out, axis, &rows)) {
            PyErr_SetString(PyExc_ValueError, "values, weights and the result do not fit");
        } else {
            Py_BEGIN_ALLOW_THREADS;
            if (f4) sum_f4(&rows, in->buf, weights->buf, out->buf);
            else sum_f8(&rows, in->buf, weights->buf, out->buf);
            Py_END_ALLOW_THREADS;
        }
    }
    while (got-- > 0) PyBuffer_Release(&views[got]);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}
