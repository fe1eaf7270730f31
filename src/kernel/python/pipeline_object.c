/* Codec pipelines as Python capsules. */
#include "python/arguments.h"

#include <string.h>

#define NAME "omnizarr.pipeline"
#define MAX_INNER (1 << 26) /* inner chunks of a shard */

static void free_pipeline(oz_pipeline *pipeline) {
    if (pipeline) free(pipeline->inner), free(pipeline->sequence);
    free(pipeline);
}

static void free_capsule(PyObject *capsule) { free_pipeline(PyCapsule_GetPointer(capsule, NAME)); }

const oz_pipeline *oz_pipeline_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, NAME); }

static int is_valid_blosc(const oz_step *s) {
    return s->typesize > 0 && s->blocksize >= 0 && s->level >= 0 && s->level <= 9 &&
           s->shuffle >= 0 && s->shuffle <= 2 && s->compressor >= 0 &&
           s->compressor <= OZ_BLOSC_OTHER;
}

static oz_status take_steps(oz_pipeline *pipeline, PyObject *steps) {
    if (PyTuple_GET_SIZE(steps) > OZ_MAX_STEPS) return oz_raise("too many codecs");
    pipeline->nsteps = (int)PyTuple_GET_SIZE(steps);
    int compressors = 0;
    for (int i = 0; i < pipeline->nsteps; i++) {
        oz_step *s = &pipeline->steps[i];
        PyObject *item = PyTuple_GET_ITEM(steps, i);
        long long blocksize;
        if (!PyTuple_Check(item)) return oz_raise("a codec must be a tuple");
        if (!PyArg_ParseTuple(item, "iiiiiiL", &s->codec, &s->level, &s->compressor, &s->shuffle,
                              &s->typesize, &s->checksum, &blocksize))
            return OZ_PYTHON;
        s->blocksize = blocksize;
        int deflate = s->codec == OZ_GZIP || s->codec == OZ_ZLIB;
        if (s->codec < OZ_CRC32C || s->codec > OZ_ZLIB) return oz_raise("unknown codec");
        if (deflate && !oz_deflate_loaded()) return oz_raise("libdeflate is not loaded");
        if (deflate && (s->level < 0 || s->level > 9)) return oz_raise("invalid level");
        if (s->codec != OZ_CRC32C && compressors++) return oz_raise("only one codec may compress");
        if (s->codec == OZ_BLOSC && !is_valid_blosc(s)) return oz_raise("invalid Blosc settings");
    }
    return OZ_OK;
}

/* Check the layout of a chunk, and compute its strides and its size. */
static oz_status take_layout(oz_pipeline *pipeline) {
    int ndim = pipeline->ndim, swap = pipeline->swap, seen[OZ_MAX_AXES] = {0};
    int64_t size = pipeline->itemsize;
    if (size < 1 || size > OZ_MAX_ITEM) return oz_raise("items are too large");
    if (swap && (swap < 2 || swap > 8 || size % swap)) return oz_raise("invalid byte order");
    for (int i = ndim - 1; i >= 0; i--) {
        int64_t axis = pipeline->permutation[i];
        if (axis < 0 || axis >= ndim || seen[axis]++) return oz_raise("not a permutation");
        if (pipeline->shape[axis] < 1) return oz_raise("a chunk has no elements");
        pipeline->strides[axis] = size;
        if (__builtin_mul_overflow(size, pipeline->shape[axis], &size))
            return oz_raise("a chunk is too large");
    }
    if (size > INT32_MAX) return oz_raise("a chunk is too large");
    pipeline->nbytes = size;
    return OZ_OK;
}

/* Make a pipeline that of a shard, with a copy of the pipeline of its inner chunks. */
static oz_status take_inner(oz_pipeline *pipeline, PyObject *capsule) {
    const oz_pipeline *inner = oz_pipeline_of(capsule);
    if (!inner) return OZ_PYTHON;
    if (inner->inner || inner->ndim != pipeline->ndim || inner->itemsize != pipeline->itemsize ||
        pipeline->nsteps)
        return oz_raise("unsupported kind of shard");
    pipeline->inner = malloc(sizeof *inner);
    if (!pipeline->inner) {
        PyErr_NoMemory();
        return OZ_PYTHON;
    }
    *pipeline->inner = *inner;
    pipeline->inner_count = 1;
    for (int i = 0; i < pipeline->ndim; i++) {
        int64_t length = pipeline->shape[i];
        if (pipeline->permutation[i] != i || length < 1 || length % inner->shape[i])
            return oz_raise("inner chunks do not fit the shard");
        pipeline->counts[i] = length / inner->shape[i];
        if (__builtin_mul_overflow(pipeline->inner_count, pipeline->counts[i],
                                   &pipeline->inner_count) ||
            pipeline->inner_count > MAX_INNER)
            return oz_raise("too many inner chunks");
    }
    return OZ_OK;
}

/* Take the order in which the inner chunks of a shard are stored: 64-bit integers. */
static oz_status take_sequence(oz_pipeline *pipeline, const Py_buffer *view) {
    int64_t count = pipeline->inner_count;
    if (!pipeline->inner || view->len != count * 8) return oz_raise("invalid order of a shard");
    pipeline->sequence = malloc((size_t)view->len);
    char *seen = calloc((size_t)count, 1); /* owned: freed below */
    if (!pipeline->sequence || !seen) {
        free(seen);
        PyErr_NoMemory();
        return OZ_PYTHON;
    }
    memcpy(pipeline->sequence, view->buf, (size_t)view->len);
    int valid = 1;
    for (int64_t k = 0; k < count && valid; k++) {
        int64_t n = pipeline->sequence[k];
        valid = n >= 0 && n < count && !seen[n];
        if (valid) seen[n] = 1;
    }
    free(seen);
    return valid ? OZ_OK : oz_raise("invalid order of a shard");
}

/* Take what only some callers give: how many numbers an item is, to compare it to the fill value,
 * and the order of inner chunks. */
static oz_status take_options(oz_pipeline *pipeline, PyObject *sequence) {
    int parts = pipeline->fill_parts;
    int64_t size = parts ? pipeline->itemsize / parts : 0;
    if (parts && (parts < 0 || parts > 2 || pipeline->itemsize % parts || (size != 4 && size != 8)))
        return oz_raise("items are not floating-point numbers");
    if (sequence == Py_None) return OZ_OK;
    Py_buffer view; /* owned: released below */
    if (PyObject_GetBuffer(sequence, &view, PyBUF_SIMPLE) != 0) return OZ_PYTHON;
    oz_status status = take_sequence(pipeline, &view);
    PyBuffer_Release(&view);
    return status;
}

/* Fill a pipeline from the arguments (shape, permutation, itemsize, swap, steps, fill, keep_empty,
 * inner, index_checksum, index_swap, index_at_end, and optionally fill_parts and sequence). */
static oz_status take_pipeline(oz_pipeline *pipeline, PyObject *args) {
    PyObject *shape, *permutation, *steps, *inner, *sequence = Py_None;
    const char *fill; /* borrowed from the arguments */
    Py_ssize_t fill_size;
    long long itemsize;
    if (!PyArg_ParseTuple(args, "O!O!LiO!y#pOppp|iO", &PyTuple_Type, &shape, &PyTuple_Type,
                          &permutation, &itemsize, &pipeline->swap, &PyTuple_Type, &steps, &fill,
                          &fill_size, &pipeline->keep_empty, &inner, &pipeline->index_checksum,
                          &pipeline->index_swap, &pipeline->index_at_end, &pipeline->fill_parts,
                          &sequence))
        return OZ_PYTHON;
    pipeline->itemsize = itemsize;
    if (PyTuple_GET_SIZE(shape) > OZ_MAX_AXES) return oz_raise("too many axes");
    pipeline->ndim = (int)PyTuple_GET_SIZE(shape);
    if (oz_take_axes(shape, pipeline->ndim, pipeline->shape)) return OZ_PYTHON;
    if (oz_take_axes(permutation, pipeline->ndim, pipeline->permutation)) return OZ_PYTHON;
    if (fill_size != itemsize || itemsize > OZ_MAX_ITEM)
        return oz_raise("the fill value has the wrong size");
    memcpy(pipeline->fill, fill, (size_t)fill_size);
    oz_status status = take_steps(pipeline, steps);
    if (!status && inner != Py_None) status = take_inner(pipeline, inner);
    if (!status) status = take_layout(pipeline);
    return status ? status : take_options(pipeline, sequence);
}

PyObject *oz_pipeline_new(PyObject *Py_UNUSED(module), PyObject *args) {
    oz_pipeline *pipeline = calloc(1, sizeof *pipeline); /* owned by the capsule, once it exists */
    if (!pipeline) return PyErr_NoMemory();
    PyObject *capsule = NULL;
    if (take_pipeline(pipeline, args) == OZ_OK)
        capsule = PyCapsule_New(pipeline, NAME, free_capsule);
    if (!capsule) free_pipeline(pipeline);
    return capsule;
}
