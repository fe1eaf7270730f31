/* The module omnizarr.stores._files: read several small files of one directory in one call, and
 * replace or copy files atomically.
 *
 * A file that exists but cannot be read, or a name that is not a plain relative path, is reported
 * as "not done"; the caller then repeats it in Python and raises the error.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "atomic_file.h"
#include "copy_file.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef O_PATH /* Linux: a descriptor for openat alone */
#define O_PATH O_RDONLY
#endif
#define MAX_FILE ((off_t)1 << 30)
#define MAX_WRITE ((Py_ssize_t)1 << 30) /* bytes of one call; systems take less than 2 GiB */

/* A path and the value to store there. */
typedef struct {
    char *path;      /* owned: strdup in take_item, freed by free_items */
    Py_buffer value; /* owned: acquired in take_item, released by free_items */
} file_item;

/* Return 1 for a name without empty, '.' or '..' segments and NULs: it never leads outside. */
static int is_plain(const char *name, Py_ssize_t size) {
    if ((size_t)size != strlen(name)) return 0;
    for (const char *p = name;; p++) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n <= 2 && strspn(p, ".") >= n)) return 0;
        p += n;
        if (*p == 0) return 1;
    }
}

/* Return the content of an open file, None for a directory, NotImplemented where not done. */
static PyObject *read_content(int file) {
    struct stat info;
    if (fstat(file, &info) < 0) Py_RETURN_NOTIMPLEMENTED;
    if (S_ISDIR(info.st_mode)) Py_RETURN_NONE;
    if (!S_ISREG(info.st_mode) || info.st_size > MAX_FILE) Py_RETURN_NOTIMPLEMENTED;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)info.st_size);
    if (bytes == NULL) return NULL;
    /* Ask for one byte more: a file that is longer than it was is being changed in place. */
    char extra;
    struct iovec parts[2] = {{PyBytes_AS_STRING(bytes), (size_t)info.st_size}, {&extra, 1}};
    ssize_t got;
    Py_BEGIN_ALLOW_THREADS;
    got = readv(file, parts, 2);
    Py_END_ALLOW_THREADS;
    if (got == (ssize_t)info.st_size) return bytes;
    Py_DECREF(bytes);
    Py_RETURN_NOTIMPLEMENTED;
}

/* Open a file. A link that leads nowhere is no missing file: its `error` is ELOOP, not ENOENT. */
static int open_file(int directory, const char *path, int *error) {
    int file, flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    Py_BEGIN_ALLOW_THREADS;
    file = openat(directory, path, flags | O_NOFOLLOW);
    *error = errno;
    if (file < 0 && *error == ELOOP) file = openat(directory, path, flags);
    Py_END_ALLOW_THREADS;
    return file;
}

/* Return the content of a file that was opened; None if `error` says that there is none. */
static PyObject *content(int file, int error) {
    if (file < 0 && (error == ENOENT || error == ENOTDIR || error == EISDIR)) Py_RETURN_NONE;
    if (file < 0) Py_RETURN_NOTIMPLEMENTED;
    PyObject *found = read_content(file);
    close(file);
    return found;
}

/* Return the UTF-8 text of a plain relative path, or NULL for anything else. */
static const char *plain_text(PyObject *name, Py_ssize_t *size) {
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, size) : NULL;
    if (text != NULL && is_plain(text, *size)) return text;
    PyErr_Clear();
    return NULL;
}

/* read(root, name) -> bytes, None (missing) or NotImplemented (not done) */
static PyObject *read_file(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    char path[PATH_MAX];
    Py_ssize_t start, size;
    if (count != 2 || !PyUnicode_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "expected a directory with a slash at its end, and a name");
        return NULL;
    }
    const char *name = plain_text(args[1], &size);
    const char *root = name == NULL ? NULL : PyUnicode_AsUTF8AndSize(args[0], &start);
    if (root == NULL || strlen(root) != (size_t)start || start + size >= PATH_MAX) {
        PyErr_Clear();
        Py_RETURN_NOTIMPLEMENTED;
    }
    memcpy(path, root, (size_t)start);
    memcpy(path + start, name, (size_t)size + 1);
    int error, file = open_file(AT_FDCWD, path, &error);
    return content(file, error);
}

/* Read one file. Where the directory could not be opened it is -1, and `error` says why. */
static PyObject *read_one(int directory, int error, PyObject *name) {
    Py_ssize_t size;
    const char *text = plain_text(name, &size);
    if (text == NULL) Py_RETURN_NOTIMPLEMENTED;
    int file = directory;
    if (directory >= 0) file = open_file(directory, text, &error);
    return content(file, error);
}

/* read_many(root, names) -> list of bytes, None (missing) or NotImplemented (not done) */
static PyObject *read_many(PyObject *Py_UNUSED(module), PyObject *args) {
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
            item = read_one(directory, error, name);
            Py_DECREF(name);
        }
        if (item == NULL) Py_CLEAR(found);
        else PyList_SET_ITEM(found, i, item);
    }
    if (directory >= 0) close(directory);
    Py_DECREF(root);
    return found;
}

/* errno is EINTR where a signal arrived, whose Python handler may raise. */
static oz_status write_all(int file, const char *data, Py_ssize_t size) {
    while (size) {
        ssize_t done = write(file, data, (size_t)(size < MAX_WRITE ? size : MAX_WRITE));
        if (done < 0) return OZ_SYSTEM;
        data += done, size -= done;
    }
    return OZ_OK;
}

/* Write a value to an open file and give the file its name. */
static oz_status finish_file(oz_atomic_file *atomic, const char *path, const Py_buffer *value,
                             int sync) {
    oz_status status = write_all(atomic->file, value->buf, value->len);
    if (!status && sync && fsync(atomic->file) != 0) status = OZ_SYSTEM;
    return oz_atomic_file_finish(atomic, AT_FDCWD, path, status);
}

/* Make the directory of a file, and store the file in it. errno is EEXIST where the directory
 * exists, and nothing was done. After another failure the directory is removed, if it is empty. */
static oz_status store_first(char *path, const Py_buffer *value, int sync) {
    oz_atomic_file atomic;
    char *end = strrchr(path, '/');
    if (end == NULL || end == path) return oz_system_error(EEXIST);
    *end = 0;
    int made = mkdir(path, 0777);
    *end = '/';
    if (made != 0) return OZ_SYSTEM;
    oz_status status = oz_atomic_file_open(&atomic, AT_FDCWD, path, 0);
    if (!status) {
        atomic.only_new = 1;
        status = finish_file(&atomic, path, value, sync);
    }
    if (!status) return OZ_OK;
    int error = errno;
    *end = 0;
    rmdir(path);
    *end = '/';
    /* Another writer found the new directory, and was quicker: the caller looks at what is there. */
    errno = error;
    return status;
}

static oz_status replace_once(char *path, const Py_buffer *value, int sync, int only_new) {
    oz_atomic_file atomic;
    int replaces = faccessat(AT_FDCWD, path, F_OK, 0) == 0;
    if (replaces && only_new) return oz_system_error(EEXIST);
    oz_status status = oz_atomic_file_open(&atomic, AT_FDCWD, path, replaces);
    char *end = status && errno == ENOENT ? strrchr(path, '/') : NULL;
    if (end && end > path) { /* usually the directory of a new node; the caller makes its parents */
        *end = 0;
        int exists = mkdir(path, 0777) == 0 || errno == EEXIST;
        *end = '/';
        status = exists ? oz_atomic_file_open(&atomic, AT_FDCWD, path, 0) : OZ_SYSTEM;
    }
    if (status) return status;
    atomic.only_new = only_new;
    return finish_file(&atomic, path, value, sync);
}

/* Store a file by `replace_once`, or by `store_first`; takes over the reference to its name. */
static PyObject *store_file(PyObject *name, PyObject *data, int sync, int only_new, int first) {
    PyObject *result = NULL;
    Py_buffer value;
    int retries = 1;
    oz_status status;
    if (PyObject_GetBuffer(data, &value, PyBUF_SIMPLE) != 0) {
        PyErr_Format(PyExc_TypeError, "a value must be contiguous bytes, got %R", Py_TYPE(data));
        Py_DECREF(name);
        return NULL;
    }
    char *path = strdup(PyBytes_AS_STRING(name)); /* owned by this call; changed and restored */
    while (path) {
        Py_BEGIN_ALLOW_THREADS;
        status = first ? store_first(path, &value, sync)
                       : replace_once(path, &value, sync, only_new);
        Py_END_ALLOW_THREADS;
        if (!status) result = Py_NewRef(Py_True);
        else if (errno == EEXIST && only_new) result = Py_NewRef(Py_False);
        else if (status == OZ_RETRY && retries--) continue;
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

/* replace(path, value, sync, only_new) -> False where the path exists and only_new is set
 *
 * Raises OSError, FileNotFoundError where the parent directory cannot be created. */
static PyObject *replace(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *name, *data;
    int sync, only_new;
    if (!PyArg_ParseTuple(args, "O&Opp", PyUnicode_FSConverter, &name, &data, &sync, &only_new))
        return NULL;
    return store_file(name, data, sync, only_new, 0);
}

/* create(path, value, sync) -> False where the directory of the path exists
 *
 * Raises OSError, FileNotFoundError where the parent of the directory does not exist. */
static PyObject *create(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *name, *data;
    int sync;
    if (!PyArg_ParseTuple(args, "O&Op", PyUnicode_FSConverter, &name, &data, &sync)) return NULL;
    return store_file(name, data, sync, 1, 1);
}

static void free_items(file_item *items, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        free(items[i].path);
        PyBuffer_Release(&items[i].value);
    }
    free(items);
}

/* Take the path and the value out of a pair. */
static oz_status take_item(PyObject *pair, file_item *item) {
    PyObject *path, *value, *name = NULL;
    if (!PyArg_ParseTuple(pair, "OO", &path, &value)) return OZ_PYTHON;
    if (!PyUnicode_FSConverter(path, &name)) return OZ_PYTHON;
    item->path = strdup(PyBytes_AS_STRING(name));
    Py_DECREF(name);
    if (item->path && PyObject_GetBuffer(value, &item->value, PyBUF_SIMPLE) == 0) return OZ_OK;
    if (!item->path) PyErr_NoMemory();
    free(item->path);
    return OZ_PYTHON;
}

/* replace_many(pairs) -> the number of files stored: all, or those before the first failure */
static PyObject *replace_many(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *pairs;
    if (!PyArg_ParseTuple(args, "O!", &PyList_Type, &pairs)) return NULL;
    PyObject *kept = PyList_AsTuple(pairs); /* other threads may change the list */
    if (kept == NULL) return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(kept), taken = 0, done = 0;
    file_item *items = calloc((size_t)count + 1, sizeof *items); /* owned by this call */
    if (items == NULL) PyErr_NoMemory();
    while (items != NULL && taken < count &&
           take_item(PyTuple_GET_ITEM(kept, taken), &items[taken]) == OZ_OK)
        taken++;
    if (items != NULL && taken == count) {
        Py_BEGIN_ALLOW_THREADS;
        while (done < count && replace_once(items[done].path, &items[done].value, 0, 0) == OZ_OK)
            done++;
        Py_END_ALLOW_THREADS;
    }
    if (items != NULL) free_items(items, taken);
    Py_DECREF(kept);
    return items != NULL && taken == count ? PyLong_FromSsize_t(done) : NULL;
}

/* Return a new array of so many names, each owned by the array, or NULL with an exception. */
static char **take_names(PyObject *names, Py_ssize_t count) {
    char **taken = calloc((size_t)count + 1, sizeof *taken); /* owned by the caller */
    if (taken == NULL) PyErr_NoMemory();
    for (Py_ssize_t i = 0; taken != NULL && i < count; i++) {
        Py_ssize_t size;
        const char *text = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(names, i), &size);
        if (text != NULL && is_plain(text, size)) taken[i] = strdup(text);
        else if (text != NULL) PyErr_SetString(PyExc_ValueError, "not a plain relative path");
        if (taken[i] != NULL) continue;
        if (!PyErr_Occurred()) PyErr_NoMemory();
        while (i--) free(taken[i]);
        free(taken);
        return NULL;
    }
    return taken;
}

/* copy_many(source, target, names, fresh) -> (number, bytes) of the files copied: all, or those
 * before the first failure */
static PyObject *copy_many(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *from, *to, *names;
    int fresh;
    if (!PyArg_ParseTuple(args, "SSO!p", &from, &to, &PyTuple_Type, &names, &fresh)) return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(names), done = 0;
    long long total = 0;
    char **taken = take_names(names, count);
    if (taken == NULL) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    int source = open(PyBytes_AS_STRING(from), O_PATH | O_DIRECTORY | O_CLOEXEC);
    int target = open(PyBytes_AS_STRING(to), O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (source >= 0 && target >= 0 && done < count) {
        oz_status status = oz_copy_file(source, target, taken[done], fresh, &total);
        if (status == OZ_RETRY) status = oz_copy_file(source, target, taken[done], fresh, &total);
        if (status) break;
        done++;
    }
    if (source >= 0) close(source);
    if (target >= 0) close(target);
    Py_END_ALLOW_THREADS;
    for (Py_ssize_t i = 0; i < count; i++) free(taken[i]);
    free(taken);
    return Py_BuildValue("nL", done, total);
}

/* Return the bytes and modification time of a file, or None where it is no regular file. */
static PyObject *status_of(int directory, PyObject *name) {
    struct stat info;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    if (text == NULL || fstatat(directory, text, &info, 0) != 0 || !S_ISREG(info.st_mode)) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
#ifdef __APPLE__
    struct timespec modified = info.st_mtimespec;
#else
    struct timespec modified = info.st_mtim;
#endif
    long long time = (long long)modified.tv_sec * 1000000000 + modified.tv_nsec;
    return Py_BuildValue("LL", (long long)info.st_size, time);
}

/* status_many(folder, names) -> list of (bytes, nanoseconds), or None (not known) for each */
static PyObject *status_many(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *folder, *names, *kept = NULL, *found = NULL;
    if (!PyArg_ParseTuple(args, "O&O!", PyUnicode_FSConverter, &folder, &PyList_Type, &names))
        return NULL;
    int directory = open(PyBytes_AS_STRING(folder), O_PATH | O_DIRECTORY | O_CLOEXEC);
    kept = PyList_AsTuple(names); /* other threads may change the list */
    if (kept != NULL) found = PyList_New(PyTuple_GET_SIZE(kept));
    for (Py_ssize_t i = 0; found != NULL && i < PyTuple_GET_SIZE(kept); i++) {
        PyObject *one = status_of(directory, PyTuple_GET_ITEM(kept, i));
        if (one == NULL) Py_CLEAR(found);
        else PyList_SET_ITEM(found, i, one);
    }
    if (directory >= 0) close(directory);
    Py_XDECREF(kept);
    Py_DECREF(folder);
    return found;
}

static PyMethodDef methods[] = {
    {"status_many", status_many, METH_VARARGS,
     "Return bytes and modification times of files in a folder, None where not known."},
    {"copy_many", copy_many, METH_VARARGS,
     "Copy files to another directory; return their number, up to the first failure, and bytes."},
    {"replace_many", replace_many, METH_VARARGS,
     "Store files as replace does and return how many, up to the first that failed."},
    {"replace", replace, METH_VARARGS,
     "Replace a file atomically; its directory is created, the parents of that are not."},
    {"create", create, METH_VARARGS, "Create a directory and a file in it, unless it exists."},
    {"read", (PyCFunction)(void (*)(void))read_file, METH_FASTCALL,
     "Read a file of a directory: bytes, None where missing, NotImplemented where not done."},
    {"read_many", read_many, METH_VARARGS,
     "Read files of a directory: bytes, None where missing, NotImplemented where not done."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_files",
    .m_doc = "Read and replace files in one call.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__files(void) { return PyModule_Create(&definition); }
