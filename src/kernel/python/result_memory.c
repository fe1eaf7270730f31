/* Memory of large results, kept for the next one when a result is freed: the system clears new
 * memory page by page, which takes as long as decoding into it. The system may take back what is
 * kept. */
#include "python/arguments.h"

#include <stdatomic.h>
#include <sys/mman.h>

#define SLOTS 4
#define MAX_KEPT ((size_t)128 << 20) /* bytes in all */

typedef struct {
    unsigned char *data; /* owned: mapped by take_block, unmapped by free_block */
    size_t size;
} memory_block;

typedef struct {
    PyObject_HEAD memory_block
        *block;      /* owned until the object is freed; then kept or freed by give_block */
    Py_ssize_t size; /* requested, at most that of the block */
} result_memory;

/* Owned by this file until a result takes them; never freed at the end of the process. */
static _Atomic(memory_block *) kept[SLOTS];
static atomic_size_t kept_bytes;

static void free_block(memory_block *block) {
    munmap(block->data, block->size);
    free(block);
}

/* Keep a block in a free slot; return 0 where there is none, or too much is kept. */
static int keep(memory_block *block) {
    if (atomic_fetch_add(&kept_bytes, block->size) + block->size <= MAX_KEPT)
        for (int i = 0; i < SLOTS; i++) {
            memory_block *none = NULL;
            if (atomic_compare_exchange_strong(&kept[i], &none, block)) return 1;
        }
    atomic_fetch_sub(&kept_bytes, block->size);
    return 0;
}

static memory_block *take_slot(int i) {
    memory_block *found = atomic_exchange(&kept[i], NULL);
    if (found) atomic_fetch_sub(&kept_bytes, found->size);
    return found;
}

/* Keep a block, instead of older ones where necessary, or free it. */
static void give_block(memory_block *block) {
#ifdef MADV_FREE
    madvise(block->data, block->size, MADV_FREE);
#endif
    for (int i = 0; i < SLOTS && block->size <= MAX_KEPT; i++) {
        if (keep(block)) return;
        memory_block *other = take_slot(i);
        if (other) free_block(other);
    }
    free_block(block);
}

/* Return a kept block that is large enough and not much larger, or a new one, for the caller. */
static memory_block *take_block(size_t size) {
    for (int i = 0; i < SLOTS; i++) {
        memory_block *found = take_slot(i);
        if (!found) continue;
        if (found->size >= size && found->size - size <= size / 8) return found;
        if (!keep(found)) free_block(found);
    }
    memory_block *made = malloc(sizeof *made); /* owned by the caller */
    if (!made) return NULL;
    made->size = size;
    made->data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made->data == MAP_FAILED) {
        free(made);
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    madvise(made->data, size, MADV_HUGEPAGE);
#endif
    return made;
}

static int get_buffer(PyObject *self, Py_buffer *view, int flags) {
    result_memory *m = (result_memory *)self;
    return PyBuffer_FillInfo(view, self, m->block->data, m->size, 0, flags);
}

static void free_result(PyObject *self) {
    result_memory *m = (result_memory *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (m->block) give_block(m->block);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot slots[] = {
    {Py_tp_dealloc, free_result},
    {Py_bf_getbuffer, get_buffer},
    {Py_tp_doc, "Memory of a result."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "omnizarr.engine._kernel.Memory",
    .basicsize = sizeof(result_memory),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

static PyTypeObject *type; /* owned by the module, for ever */

oz_status oz_result_memory_init(void) {
    type = (PyTypeObject *)PyType_FromSpec(&spec);
    return type ? OZ_OK : OZ_PYTHON;
}

PyObject *oz_result_memory_new(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "n", &size)) return NULL;
    if (size < 1) {
        oz_raise("invalid size");
        return NULL;
    }
    result_memory *m = (result_memory *)type->tp_alloc(type, 0);
    if (!m) return NULL;
    m->size = size;
    m->block = take_block((size_t)size);
    if (m->block) return (PyObject *)m;
    Py_DECREF(m);
    return PyErr_NoMemory();
}
