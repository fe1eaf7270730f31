/* The module omnizarr.codecs._strings: the vlen-utf8 codec between NumPy's StringDType and
 * length-prefixed bytes, without creating a Python object for each item.
 *
 * Every length is checked against the buffer and every item is checked to be UTF-8. Invalid data
 * are reported as "not done"; the Python codec then repeats the call and raises the error.
 */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <Python.h>

#include <numpy/arrayobject.h>

#include "bytes.h"
#include "utf8.h"

#include <string.h>

/* Return the argument, borrowed, as a contiguous array of strings, or NULL with an exception. */
static PyArrayObject *as_string_array(PyObject *object, int writable) {
    if (!PyArray_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "expected an array");
        return NULL;
    }
    PyArrayObject *array = (PyArrayObject *)object;
    if (PyArray_TYPE(array) != NPY_VSTRING || !PyArray_IS_C_CONTIGUOUS(array) ||
        (writable && !PyArray_ISWRITEABLE(array))) {
        PyErr_SetString(PyExc_ValueError, "expected a contiguous array of StringDType");
        return NULL;
    }
    return array;
}

/* encode(array) -> bytes, or None where an item is missing or too long */
static PyObject *encode(PyObject *Py_UNUSED(module), PyObject *object) {
    PyArrayObject *array = as_string_array(object, 0);
    if (!array) return NULL;
    npy_intp count = PyArray_SIZE(array);
    const char *items = PyArray_BYTES(array);
    npy_intp step = PyArray_ITEMSIZE(array);
    if (count > UINT32_MAX) Py_RETURN_NONE;
    npy_string_allocator *allocator =
        NpyString_acquire_allocator((PyArray_StringDTypeObject *)PyArray_DESCR(array));
    size_t total = 4;
    int failed = 0;
    for (npy_intp i = 0; i < count && !failed; i++) {
        npy_static_string item = {0, NULL};
        const npy_packed_static_string *packed = (const void *)(items + i * step);
        failed = NpyString_load(allocator, packed, &item) != 0 || item.size > INT32_MAX;
        total += 4 + item.size;
    }
    PyObject *result = NULL; /* new reference, returned; filled below before anyone sees it */
    if (!failed && total <= (size_t)PY_SSIZE_T_MAX)
        result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
    if (result) {
        unsigned char *to = (unsigned char *)PyBytes_AS_STRING(result);
        oz_put_u32(to, (uint32_t)count);
        to += 4;
        for (npy_intp i = 0; i < count; i++) {
            npy_static_string item = {0, NULL};
            NpyString_load(allocator, (const void *)(items + i * step), &item);
            oz_put_u32(to, (uint32_t)item.size);
            if (item.size) memcpy(to + 4, item.buf, item.size);
            to += 4 + item.size;
        }
    }
    NpyString_release_allocator(allocator);
    if (!result && !PyErr_Occurred()) Py_RETURN_NONE;
    return result;
}

/* decode(data, array) -> True where the data were valid and all items are set */
static PyObject *decode(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer view;
    PyObject *object;
    if (!PyArg_ParseTuple(args, "y*O", &view, &object)) return NULL;
    PyArrayObject *array = as_string_array(object, 1);
    if (!array) {
        PyBuffer_Release(&view);
        return NULL;
    }
    npy_intp count = PyArray_SIZE(array), step = PyArray_ITEMSIZE(array);
    char *items = PyArray_BYTES(array);
    const unsigned char *p = view.buf, *end = p + view.len;
    int valid = view.len >= 4 && oz_get_u32(p) == (uint64_t)count;
    npy_string_allocator *allocator =
        NpyString_acquire_allocator((PyArray_StringDTypeObject *)PyArray_DESCR(array));
    p += valid ? 4 : 0;
    for (npy_intp i = 0; i < count && valid; i++) {
        valid = end - p >= 4;
        if (!valid) break;
        size_t size = oz_get_u32(p);
        p += 4;
        valid = size <= (size_t)(end - p) && oz_is_utf8(p, size) &&
                NpyString_pack(allocator, (void *)(items + i * step), (const char *)p, size) == 0;
        p += valid ? size : 0;
    }
    valid = valid && p == end;
    NpyString_release_allocator(allocator);
    PyBuffer_Release(&view);
    return PyBool_FromLong(valid);
}

static PyMethodDef methods[] = {
    {"encode", encode, METH_O, "Return the bytes of an array of strings, or None."},
    {"decode", decode, METH_VARARGS, "Fill an array of strings; False for invalid data."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_strings",
    .m_doc = "vlen-utf8 on arrays of StringDType.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__strings(void) {
    import_array();
    return PyModule_Create(&definition);
}
