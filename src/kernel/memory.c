/* Memory of large results, kept for the next one when a result goes: the system clears fresh memory
 * page by page, which takes as long as decoding it. What is kept the system may take back. */
#include "columns.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define SLOTS 4
#define MOST_KEPT ((size_t)128 << 20) /* bytes in all */

typedef struct {
    unsigned char *data;
    size_t size;
} block_t;

typedef struct {
    PyObject_HEAD
    block_t *block;
    Py_ssize_t size;
} memory_t;

static _Atomic(block_t *) kept[SLOTS];
static atomic_size_t kept_bytes;

static void drop_block(block_t *block) {
    munmap(block->data, block->size);
    free(block);
}

/* Whether it found a free slot, and all that is kept is not too much. */
static int keep(block_t *block) {
    if (atomic_fetch_add(&kept_bytes, block->size) + block->size <= MOST_KEPT)
        for (int i = 0; i < SLOTS; i++) {
            block_t *none = NULL;
            if (atomic_compare_exchange_strong(&kept[i], &none, block)) return 1;
        }
    atomic_fetch_sub(&kept_bytes, block->size);
    return 0;
}

static block_t *take_slot(int i) {
    block_t *found = atomic_exchange(&kept[i], NULL);
    if (found) atomic_fetch_sub(&kept_bytes, found->size);
    return found;
}

/* The newest ones are kept. */
static void give_block(block_t *block) {
#ifdef MADV_FREE
    madvise(block->data, block->size, MADV_FREE);
#endif
    for (int i = 0; i < SLOTS && block->size <= MOST_KEPT; i++) {
        if (keep(block)) return;
        block_t *other = take_slot(i);
        if (other) drop_block(other);
    }
    drop_block(block);
}

/* A kept block that is large enough and not much larger, or a fresh one. */
static block_t *take_block(size_t size) {
    for (int i = 0; i < SLOTS; i++) {
        block_t *found = take_slot(i);
        if (!found) continue;
        if (found->size >= size && found->size - size <= size / 8) return found;
        if (!keep(found)) drop_block(found);
    }
    block_t *fresh = malloc(sizeof *fresh);
    if (!fresh) return NULL;
    fresh->size = size;
    fresh->data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh->data == MAP_FAILED) {
        free(fresh);
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    madvise(fresh->data, size, MADV_HUGEPAGE);
#endif
    return fresh;
}

static int memory_buffer(PyObject *self, Py_buffer *view, int flags) {
    memory_t *m = (memory_t *)self;
    return PyBuffer_FillInfo(view, self, m->block->data, m->size, 0, flags);
}

static void memory_free(PyObject *self) {
    memory_t *m = (memory_t *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (m->block) give_block(m->block);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot slots[] = {
    {Py_tp_dealloc, memory_free},
    {Py_bf_getbuffer, memory_buffer},
    {Py_tp_doc, "Memory of a result."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "omnizarr.engine._kernel.Memory",
    .basicsize = sizeof(memory_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

static PyTypeObject *type;

int memory_init(void) {
    type = (PyTypeObject *)PyType_FromSpec(&spec);
    return type ? 0 : -1;
}

/* memory(size) -> a buffer of that many bytes, with anything in it */
PyObject *py_memory(PyObject *self, PyObject *args) {
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "n", &size)) return NULL;
    if (size < 1) {
        fail("no such size");
        return NULL;
    }
    memory_t *m = (memory_t *)type->tp_alloc(type, 0);
    if (!m) return NULL;
    m->size = size;
    m->block = take_block((size_t)size);
    if (m->block) return (PyObject *)m;
    Py_DECREF(m);
    return PyErr_NoMemory();
}
