/* The module omnizarr._members: where the members of a JSON object are in its text.
 *
 * The whole text is checked to be JSON (RFC 8259) in UTF-8, but no value is made of it, so that the
 * few members that are needed of a large document can be read alone. Only names that occur twice
 * inside of values are not found. Invalid text is reported as None; the caller then reads it with
 * Python's parser, which raises the error.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "utf8.h"

#define MAX_DEPTH 128 /* as in omnizarr._json: of containers, and of a value in them */

typedef struct {
    const unsigned char *p, *end;
    int nan; /* bare NaN and infinities are allowed */
} scanner_t;

static inline void skip_space(scanner_t *s) {
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t' || *s->p == '\r')) s->p++;
}

static int is_hex(unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Pass a string, whose quotation mark is next; `escaped` becomes 1 if it has escapes. */
static int scan_string(scanner_t *s, int *escaped) {
    const unsigned char *p = s->p + 1, *end = s->end;
    for (; p < end; p++) {
        unsigned char c = *p;
        if (c == '"') {
            s->p = p + 1;
            return 1;
        }
        if (c < 0x20) return 0;
        if (c != '\\') continue;
        *escaped = 1;
        if (++p == end) return 0;
        if (*p == 'u') {
            if (end - p < 5 || !is_hex(p[1]) || !is_hex(p[2]) || !is_hex(p[3]) || !is_hex(p[4]))
                return 0;
            p += 4;
        } else if (*p == 0 || strchr("\"\\/bfnrt", *p) == NULL) {
            return 0;
        }
    }
    return 0;
}

static int scan_digits(scanner_t *s) {
    const unsigned char *start = s->p;
    while (s->p < s->end && *s->p >= '0' && *s->p <= '9') s->p++;
    return s->p > start;
}

static int scan_word(scanner_t *s, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0) return 0;
    s->p += n;
    return 1;
}

static int scan_number(scanner_t *s) {
    if (*s->p == '-') {
        s->p++;
        if (s->nan && scan_word(s, "Infinity")) return 1;
    }
    if (s->p < s->end && *s->p == '0') {
        s->p++;
    } else if (!scan_digits(s)) {
        return 0;
    }
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (!scan_digits(s)) return 0;
    }
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-')) s->p++;
        if (!scan_digits(s)) return 0;
    }
    return 1;
}

/* Pass the name of a member and its colon, with the space around them. */
static int scan_name(scanner_t *s, int *escaped) {
    if (s->p == s->end || *s->p != '"' || !scan_string(s, escaped)) return 0;
    skip_space(s);
    if (s->p == s->end || *s->p != ':') return 0;
    s->p++;
    skip_space(s);
    return 1;
}

/* Pass a value that begins at the next character; `depth` containers are around it. */
static int scan_value(scanner_t *s, int depth) {
    int escaped = 0;
    unsigned char close[MAX_DEPTH];
    int inside = 0; /* containers of this value that are open */
    for (;;) {
        if (s->p == s->end) return 0;
        unsigned char c = *s->p;
        if (c == '{' || c == '[') {
            if (depth + inside >= MAX_DEPTH) return 0;
            s->p++;
            skip_space(s);
            if (s->p == s->end) return 0;
            close[inside++] = c + 2; /* the closing bracket, in ASCII */
            if (*s->p != c + 2) {
                if (depth + inside == MAX_DEPTH) return 0;
                if (c == '{' && !scan_name(s, &escaped)) return 0;
                continue;
            }
        } else if (c == '"') {
            if (!scan_string(s, &escaped)) return 0;
        } else if (c == '-' || (c >= '0' && c <= '9')) {
            if (!scan_number(s)) return 0;
        } else if (!scan_word(s, "true") && !scan_word(s, "false") && !scan_word(s, "null") &&
                   !(s->nan && (scan_word(s, "NaN") || scan_word(s, "Infinity")))) {
            return 0;
        }
        for (;;) { /* a value has ended, or a container is empty */
            if (inside == 0) return 1;
            skip_space(s);
            if (s->p == s->end) return 0;
            c = *s->p;
            if (c == ',') {
                s->p++;
                skip_space(s);
                if (close[inside - 1] == '}' && !scan_name(s, &escaped)) return 0;
                break;
            }
            if (c != close[inside - 1]) return 0;
            s->p++;
            inside--;
        }
    }
}

/* Return a name without its quotation marks. */
static PyObject *decode_name(const unsigned char *start, const unsigned char *end, int escaped) {
    if (!escaped) return PyUnicode_DecodeUTF8((const char *)start + 1, end - start - 2, NULL);
    PyObject *json = PyImport_ImportModule("json");
    if (json == NULL) return NULL;
    PyObject *name =
        PyObject_CallMethod(json, "loads", "y#", (const char *)start, (Py_ssize_t)(end - start));
    Py_DECREF(json);
    return name;
}

/* Add a member; return 1, 0 if the name is there already, or -1 with an exception. */
static int add(PyObject *found, PyObject *name, Py_ssize_t key, Py_ssize_t from, Py_ssize_t to) {
    int there = PyDict_Contains(found, name);
    if (there != 0) return there < 0 ? -1 : 0;
    PyObject *span = Py_BuildValue("(nnn)", key, from, to);
    int status = span != NULL && PyDict_SetItem(found, name, span) == 0 ? 1 : -1;
    Py_XDECREF(span);
    return status;
}

/* Pass an object, and append a dictionary of its members to `levels`; also one of the member that
 * the first of `names` names, if it is an object, and so on. Return 1, 0 for invalid text, or -1 with
 * an exception. The depth of recursion is that of `names`. */
static int scan_object(scanner_t *s, const unsigned char *text, PyObject *names, Py_ssize_t level,
                       PyObject *levels) {
    PyObject *found = PyDict_New();
    if (found == NULL || PyList_Append(levels, found) < 0) {
        Py_XDECREF(found);
        return -1;
    }
    Py_DECREF(found); /* the list has it */
    PyObject *wanted = level < PyTuple_GET_SIZE(names) ? PyTuple_GET_ITEM(names, level) : NULL;
    s->p++;
    skip_space(s);
    int more = s->p < s->end && *s->p != '}';
    while (more) {
        const unsigned char *key = s->p;
        int escaped = 0;
        if (key == s->end || *key != '"' || !scan_string(s, &escaped)) return 0;
        PyObject *name = decode_name(key, s->p, escaped);
        if (name == NULL) return -1;
        int descend = wanted != NULL && PyUnicode_Compare(name, wanted) == 0;
        skip_space(s);
        int good = s->p < s->end && *s->p++ == ':';
        skip_space(s);
        const unsigned char *value = s->p;
        if (good && descend && value < s->end && *value == '{') {
            good = scan_object(s, text, names, level + 1, levels);
        } else if (good) {
            good = scan_value(s, (int)level + 1);
        }
        if (good == 1) good = add(found, name, key - text, value - text, s->p - text);
        Py_DECREF(name);
        if (good != 1) return good;
        skip_space(s);
        if (s->p == s->end) return 0;
        more = *s->p == ',';
        if (more) {
            s->p++;
            skip_space(s);
        }
    }
    if (s->p == s->end || *s->p != '}') return 0;
    s->p++;
    return 1;
}

/* members(data, names, allow_nan) -> [{name: (start of the name, start and end of the value)}, …]
 *
 * The first is for the object that `data` is, the others for the members that `names` lead to. */
static PyObject *members(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *data, *names;
    int nan;
    if (!PyArg_ParseTuple(args, "SO!p", &data, &PyTuple_Type, &names, &nan)) return NULL;
    if (PyTuple_GET_SIZE(names) > 8) {
        PyErr_SetString(PyExc_ValueError, "expected at most 8 names");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++)
        if (!PyUnicode_Check(PyTuple_GET_ITEM(names, i))) {
            PyErr_SetString(PyExc_TypeError, "expected names");
            return NULL;
        }
    const unsigned char *text = (const unsigned char *)PyBytes_AS_STRING(data);
    scanner_t s = {text, text + PyBytes_GET_SIZE(data), nan};
    if (!oz_is_utf8(text, (size_t)(s.end - s.p))) Py_RETURN_NONE;
    skip_space(&s);
    if (s.p == s.end || *s.p != '{') Py_RETURN_NONE;
    PyObject *levels = PyList_New(0);
    if (levels == NULL) return NULL;
    int status = scan_object(&s, text, names, 0, levels);
    skip_space(&s);
    if (status == 1 && s.p == s.end) return levels;
    Py_DECREF(levels);
    if (status < 0) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"members", members, METH_VARARGS, "Return where members of objects are, or None."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_members",
    .m_doc = "The members of JSON objects, by their place in the text.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__members(void) {
    return PyModule_Create(&definition);
}
