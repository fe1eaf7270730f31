/* Several small files of one directory in one call: documents that may or may not be there; and a
 * file that is replaced in one call.
 *
 * A file that cannot be read for any reason but its absence, or a name that is not a plain
 * relative path, is reported as "not done"; the caller then does it again and raises.
 */
#define PY_SSIZE_T_CLEAN
#include "fresh.h"
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
#define MOST ((Py_ssize_t)1 << 30) /* bytes of one write; not more than 2 GiB are taken at once */

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

/* `error` says why there is no directory where that is so. */
static PyObject *one(int directory, int error, PyObject *name) {
    Py_ssize_t size;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &size) : NULL;
    if (text == NULL || !is_plain(text, size)) {
        PyErr_Clear();
        Py_RETURN_NOTIMPLEMENTED;
    }
    int file = -1;
    if (directory >= 0) {
        Py_BEGIN_ALLOW_THREADS;
        file = openat(directory, text, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        error = errno;
        Py_END_ALLOW_THREADS;
    }
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
    int directory = -1, error = 0;
    if (found != NULL) {
        directory = open(PyBytes_AS_STRING(root), O_PATH | O_DIRECTORY | O_CLOEXEC);
        error = errno;
    }
    for (Py_ssize_t i = 0; found != NULL && i < PyList_GET_SIZE(found); i++) {
        PyObject *item;
        if (i >= PyList_GET_SIZE(names)) /* another thread made it shorter */
            item = Py_NewRef(Py_NotImplemented);
        else {
            PyObject *name = Py_NewRef(PyList_GET_ITEM(names, i));
            item = one(directory, error, name);
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

/* All bytes to a file; 0, or -1 with errno, which is EINTR where a signal's handler may raise. */
static int write_all(int file, const char *data, Py_ssize_t size) {
    while (size) {
        ssize_t done = write(file, data, (size_t)(size < MOST ? size : MOST));
        if (done < 0) return -1;
        data += done, size -= done;
    }
    return 0;
}

static int replace_once(char *path, const Py_buffer *value, int sync) {
    fresh_t fresh;
    int replaces = faccessat(AT_FDCWD, path, F_OK, 0) == 0;
    int bad = fresh_open(&fresh, AT_FDCWD, path, replaces);
    char *end = bad && errno == ENOENT ? strrchr(path, '/') : NULL;
    if (end && end > path) { /* the folder of a new node, mostly; those above are the caller's */
        *end = 0;
        int made = mkdir(path, 0777) == 0 || errno == EEXIST;
        *end = '/';
        bad = made ? fresh_open(&fresh, AT_FDCWD, path, 0) : -1;
    }
    if (bad) return -1;
    bad = write_all(fresh.file, value->buf, value->len);
    if (!bad && sync) bad = fsync(fresh.file);
    return fresh_finish(&fresh, AT_FDCWD, path, bad);
}

/* replace(path, value, sync): raises OSError; FileNotFoundError where the folder cannot be made. */
static PyObject *py_replace(PyObject *self, PyObject *args) {
    PyObject *name, *data, *result = NULL;
    Py_buffer value;
    int sync, bad, again = 1;
    if (!PyArg_ParseTuple(args, "O&Op", PyUnicode_FSConverter, &name, &data, &sync)) return NULL;
    if (PyObject_GetBuffer(data, &value, PyBUF_SIMPLE) != 0) {
        PyErr_Format(PyExc_TypeError, "a value is bytes without gaps, got %R", Py_TYPE(data));
        Py_DECREF(name);
        return NULL;
    }
    char *path = strdup(PyBytes_AS_STRING(name));
    while (path) {
        Py_BEGIN_ALLOW_THREADS;
        bad = replace_once(path, &value, sync);
        Py_END_ALLOW_THREADS;
        if (!bad) result = Py_NewRef(Py_None);
        else if (errno == EAGAIN && again--) continue; /* another way is taken then */
        else if (errno != EINTR) PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
        else if (PyErr_CheckSignals() == 0) continue;
        break;
    }
    if (!path) PyErr_NoMemory();
    free(path);
    PyBuffer_Release(&value);
    Py_DECREF(name);
    return result;
}

static PyMethodDef methods[] = {
    {"replace", py_replace, METH_VARARGS,
     "Stores a file that is seen when it is complete; its folder is made, not those above."},
    {"read_many", py_read_many, METH_VARARGS,
     "The content of files of a directory: bytes, None where absent, NotImplemented if not done."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_files", "Files in one call each.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__files(void) { return PyModule_Create(&definition); }
