/* Several small files of one directory in one call: documents that may or may not be there.
 *
 * A file that cannot be read for any reason but its absence, or a name that is not a plain
 * relative path, is reported as "not done"; the caller then does it again and raises.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef O_PATH
#define O_PATH O_RDONLY
#endif
#define LARGEST ((off_t)1 << 30)

/* No empty, '.' or '..' segment, no NUL: such a name never leads outside. */
static int is_plain(const char *name, Py_ssize_t size) {
    if ((size_t)size != strlen(name)) return 0;
    for (const char *p = name;; p++) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n <= 2 && strspn(p, ".") >= n)) return 0;
        p += n;
        if (*p == 0) return 1;
    }
}

static int is_absent(int error) {
    return error == ENOENT || error == ENOTDIR || error == EISDIR;
}

/* The content of an open file; None where it is a directory; NotImplemented where not done. */
static PyObject *content(int file) {
    struct stat info;
    if (fstat(file, &info) < 0) Py_RETURN_NOTIMPLEMENTED;
    if (S_ISDIR(info.st_mode)) Py_RETURN_NONE;
    if (!S_ISREG(info.st_mode) || info.st_size > LARGEST) Py_RETURN_NOTIMPLEMENTED;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)info.st_size);
    if (bytes == NULL) return NULL;
    /* One byte more than there should be: a file that is longer is being changed in place. */
    char more;
    struct iovec parts[2] = {{PyBytes_AS_STRING(bytes), (size_t)info.st_size}, {&more, 1}};
    ssize_t got;
    Py_BEGIN_ALLOW_THREADS;
    got = readv(file, parts, 2);
    Py_END_ALLOW_THREADS;
    if (got == (ssize_t)info.st_size) return bytes;
    Py_DECREF(bytes);
    Py_RETURN_NOTIMPLEMENTED;
}

static PyObject *one(int directory, PyObject *name) {
    Py_ssize_t size;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &size) : NULL;
    if (text == NULL || !is_plain(text, size)) {
        PyErr_Clear();
        Py_RETURN_NOTIMPLEMENTED;
    }
    int file, error;
    Py_BEGIN_ALLOW_THREADS;
    file = openat(directory, text, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    error = errno;
    Py_END_ALLOW_THREADS;
    if (file < 0 && is_absent(error)) Py_RETURN_NONE;
    if (file < 0) Py_RETURN_NOTIMPLEMENTED;
    PyObject *found = content(file);
    close(file);
    return found;
}

static PyObject *py_read_many(PyObject *self, PyObject *args) {
    PyObject *root, *names;
    if (!PyArg_ParseTuple(args, "O&O!", PyUnicode_FSConverter, &root, &PyList_Type, &names))
        return NULL;
    PyObject *found = PyList_New(PyList_GET_SIZE(names));
    int directory = -1, error;
    if (found != NULL) {
        directory = open(PyBytes_AS_STRING(root), O_PATH | O_DIRECTORY | O_CLOEXEC);
        error = errno;
    }
    for (Py_ssize_t i = 0; found != NULL && i < PyList_GET_SIZE(found); i++) {
        PyObject *item;
        if (i >= PyList_GET_SIZE(names)) /* another thread made it shorter */
            item = Py_NewRef(Py_NotImplemented);
        else if (directory < 0)
            item = Py_NewRef(is_absent(error) ? Py_None : Py_NotImplemented);
        else {
            PyObject *name = Py_NewRef(PyList_GET_ITEM(names, i));
            item = one(directory, name);
            Py_DECREF(name);
        }
        if (item == NULL)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, i, item);
    }
    if (directory >= 0) close(directory);
    Py_DECREF(root);
    return found;
}

static PyMethodDef methods[] = {
    {"read_many", py_read_many, METH_VARARGS,
     "The content of files of a directory: bytes, None where absent, NotImplemented if not done."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_files", "Several small files in one call.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__files(void) { return PyModule_Create(&definition); }
