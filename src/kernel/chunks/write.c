#include "chunks/write.h"

#include "chunks/shards.h"
#include "rows/elements.h"
#include "rows/output.h"

#include <string.h>

#define SLAB (128 << 10) /* bytes that stay in the cache of one core */

/* Decode the old value of a chunk into `target`, or set it to the fill value. */
static oz_status read_old(const oz_batch *batch, oz_workspace *workspace, const oz_row *row,
                          unsigned char *target) {
    const oz_pipeline *pipeline = batch->pipeline;
    oz_input input;
    oz_bytes in;
    oz_status status = oz_row_open(batch, row, &input);
    if (status == OZ_OK && !pipeline->nsteps && !pipeline->swap && input.file >= 0) {
        status = OZ_INVALID;
        if (input.size == pipeline->nbytes)
            status = oz_read_at(input.file, target, (size_t)input.size, 0);
    } else if (status == OZ_OK) {
        in.size = (size_t)input.size;
        status = oz_input_read(&input, 0, input.size, &workspace->stored, &in.data);
        if (!status) status = oz_decode_into(pipeline, workspace, in, target);
    } else if (status == OZ_MISSING) {
        oz_put_fill(pipeline, target);
        status = OZ_OK;
    }
    oz_input_close(&input);
    return status;
}

/* Make the decoded chunk in the workspace: a box from the array, the rest as it was or the fill
 * value. */
static oz_status gather(const oz_batch *batch, oz_workspace *workspace, const oz_row *row) {
    const oz_pipeline *pipeline = batch->pipeline;
    int64_t strides[OZ_MAX_AXES];
    int full = 1;
    for (int i = 0; i < pipeline->ndim; i++) {
        strides[i] = pipeline->strides[i] * row->step[i];
        full &= row->count[i] == pipeline->shape[i];
    }
    size_t size = pipeline->nbytes ? (size_t)pipeline->nbytes : 1;
    oz_status status = oz_buffer_reserve(&workspace->decoded, size);
    if (status) return status;
    unsigned char *target = workspace->decoded.data; /* borrowed from the workspace */
    if (!row->whole) {
        if ((status = read_old(batch, workspace, row, target))) return status;
    } else if (!full) {
        oz_put_fill(pipeline, target);
    }
    for (int i = 0; i < pipeline->ndim; i++) target += row->inner[i] * pipeline->strides[i];
    if (batch->elements) oz_copy_elements(batch, row, target, strides, 1);
    else
        oz_copy_box(pipeline, row->count, oz_row_array(batch, row), batch->strides, target,
                    strides);
    return OZ_OK;
}

/* Return 1 where the array has the bytes of the chunk as they are stored. Those that go through a
 * codec are copied first: it could not stand that another thread changes them meanwhile. */
static int is_stored_as_is(const oz_batch *batch, const oz_row *row) {
    const oz_pipeline *pipeline = batch->pipeline;
    oz_box box = {row->inner, row->count, row->step, NULL, batch->strides};
    return !pipeline->nsteps && !pipeline->swap && !batch->elements &&
           oz_box_is_contiguous(pipeline, &box);
}

/* Return how many planes of a chunk go into one block of Blosc or one piece of a file; 0 where they
 * do not, or where the chunk is not larger than that, or not filled by a box of the array. */
static int64_t planes_at_once(const oz_batch *batch, const oz_row *row) {
    const oz_pipeline *pipeline = batch->pipeline;
    if (batch->elements || !row->whole || pipeline->nbytes <= SLAB) return 0;
    for (int i = 0; i < pipeline->ndim; i++)
        if (row->count[i] != pipeline->shape[i]) return 0;
    int64_t plane = pipeline->strides[pipeline->permutation[0]];
    if (pipeline->nsteps == 0) return batch->stored ? 0 : plane < SLAB ? SLAB / plane : 1;
    if (pipeline->steps[0].codec != OZ_BLOSC || pipeline->nbytes > INT32_MAX - OZ_BLOSC_HEADER)
        return 0;
    size_t block = oz_blosc1_choose_block(&pipeline->steps[0], (size_t)pipeline->nbytes);
    return (int64_t)block % plane ? 0 : (int64_t)block / plane;
}

/* Copies a few planes of a chunk at a time into the workspace, where they are still in the cache
 * when they are encoded or written. */
typedef struct {
    oz_block_source source; /* for Blosc */
    const oz_batch *batch;  /* borrowed, as the following, for as long as the row is written */
    oz_workspace *workspace;
    const oz_row *row;
    const unsigned char *array;
    int64_t planes; /* at once */
} plane_copier;

/* Copy some planes to `target`; return the number of bytes. */
static int64_t copy_planes(const plane_copier *copier, int64_t first, int64_t planes,
                           unsigned char *target) {
    const oz_pipeline *pipeline = copier->batch->pipeline;
    const int64_t *strides = copier->batch->strides;
    int axis = (int)pipeline->permutation[0];
    int64_t count[OZ_MAX_AXES];
    memcpy(count, copier->row->count, sizeof *count * (size_t)pipeline->ndim);
    count[axis] = planes < count[axis] - first ? planes : count[axis] - first;
    oz_copy_box(pipeline, count, copier->array + first * strides[axis], strides,
                target, pipeline->strides);
    return count[axis] * pipeline->strides[axis];
}

/* Return 1 for a chunk that is stored: one with planes that are not all fill value. */
static int is_stored(const plane_copier *copier) {
    const oz_pipeline *pipeline = copier->batch->pipeline;
    int64_t all = pipeline->shape[pipeline->permutation[0]];
    int stored = pipeline->keep_empty;
    unsigned char *decoded = copier->workspace->decoded.data; /* borrowed from the workspace */
    for (int64_t n = 0; n < all && !stored; n += copier->planes) {
        int64_t size = copy_planes(copier, n, copier->planes, decoded);
        stored = !oz_is_fill(pipeline, decoded, size);
    }
    return stored;
}

static const unsigned char *get_planes(oz_block_source *source, oz_workspace *workspace, size_t at,
                                       size_t size) {
    const plane_copier *copier = (const plane_copier *)source;
    const oz_pipeline *pipeline = copier->batch->pipeline;
    if (oz_buffer_reserve(&workspace->decoded, size)) return NULL;
    unsigned char *decoded = workspace->decoded.data; /* borrowed from the workspace */
    int64_t plane = pipeline->strides[pipeline->permutation[0]];
    copy_planes(copier, (int64_t)at / plane, (int64_t)size / plane, decoded);
    if (pipeline->swap) oz_swap_bytes(decoded, (int64_t)size, pipeline->swap);
    return decoded;
}

/* Encode a chunk that Blosc gets a few planes at a time; OZ_NOT_SMALLER if that gains nothing. */
static oz_status encode_planes(plane_copier *copier, oz_bytes *result) {
    const oz_pipeline *pipeline = copier->batch->pipeline;
    oz_workspace *workspace = copier->workspace;
    size_t total = (size_t)pipeline->nbytes, size;
    *result = (oz_bytes){NULL, 0};
    if (!is_stored(copier)) return OZ_OK;
    oz_status status =
        oz_buffer_reserve(&workspace->encoded, total + OZ_BLOSC_HEADER + 4 * OZ_MAX_STEPS);
    if (status) return status;
    unsigned char *out = workspace->encoded.data; /* borrowed from the workspace */
    status =
        oz_blosc1_encode_blocks(&pipeline->steps[0], workspace, &copier->source, total, out, &size);
    if (status) return status;
    return oz_encode_from(pipeline, workspace, 1, (oz_bytes){out, size}, result);
}

/* Write a chunk without codecs a few planes at a time. */
static oz_status write_planes(oz_batch *batch, const plane_copier *copier) {
    const oz_pipeline *pipeline = batch->pipeline;
    int64_t all = pipeline->shape[pipeline->permutation[0]];
    unsigned char *decoded = copier->workspace->decoded.data; /* borrowed from the workspace */
    size_t at = 0;
    oz_status status = OZ_OK;
    oz_output output;
    int stored = is_stored(copier);
    oz_output_start(&output, copier->row);
    for (int64_t n = 0; n < all && stored && !status; n += copier->planes) {
        int64_t size = copy_planes(copier, n, copier->planes, decoded);
        if (pipeline->swap) oz_swap_bytes(decoded, size, pipeline->swap);
        status = oz_output_write(batch, &output, (oz_bytes){decoded, (size_t)size}, at);
        at += (size_t)size;
    }
    return oz_output_finish(batch, &output, status);
}

/* A chunk of which a box is changed, block by block. */
typedef struct {
    oz_block_source source;
    const unsigned char *decoded; /* borrowed from the workspace: the blocks that are changed */
    oz_bytes stored;              /* borrowed from the workspace or the value: the others */
    size_t first, end;            /* the blocks that are changed */
} block_changer;

static const unsigned char *get_changed(oz_block_source *source, oz_workspace *workspace,
                                        size_t at, size_t size) {
    (void)workspace, (void)size;
    return ((const block_changer *)source)->decoded + at;
}

static oz_status get_unchanged(oz_block_source *source, size_t number, size_t size,
                               oz_bytes *stream) {
    const block_changer *changer = (const block_changer *)source;
    if (number >= changer->first && number < changer->end) return OZ_OK;
    return oz_blosc1_get_stream(changer->stored, number, size, stream);
}

/* Set which blocks of a chunk a row changes; return 0 where they cannot be changed alone: only
 * those of Blosc can, and only where others stay as they are. */
static int blocks_alone(const oz_batch *batch, const oz_row *row, block_changer *changer) {
    const oz_pipeline *pipeline = batch->pipeline;
    int64_t first, end;
    if (row->whole || batch->elements || pipeline->swap || pipeline->nsteps != 1) return 0;
    if (pipeline->steps[0].codec != OZ_BLOSC || pipeline->steps[0].compressor == OZ_BLOSC_OTHER ||
        pipeline->nbytes > INT32_MAX - OZ_BLOSC_HEADER)
        return 0;
    size_t block = oz_blosc1_choose_block(&pipeline->steps[0], (size_t)pipeline->nbytes);
    size_t count = ((size_t)pipeline->nbytes + block - 1) / block;
    oz_box box = {row->inner, row->count, row->step, NULL, NULL};
    oz_box_range(pipeline, &box, &first, &end);
    changer->first = (size_t)first / block, changer->end = ((size_t)end - 1) / block + 1;
    return changer->end - changer->first < count;
}

/* Decode, change and encode only those blocks of a chunk that a row touches. OZ_NOT_SMALLER where
 * it has to be done in full: the chunk is missing, has other blocks, or may be all fill value. */
static oz_status change_blocks(const oz_batch *batch, oz_workspace *workspace, const oz_row *row,
                               block_changer *changer, oz_bytes *result) {
    const oz_pipeline *pipeline = batch->pipeline;
    const oz_step *step = &pipeline->steps[0];
    size_t total = (size_t)pipeline->nbytes, block = oz_blosc1_choose_block(step, total);
    size_t from = changer->first * block, to = changer->end * block;
    int64_t strides[OZ_MAX_AXES];
    oz_input input;
    if (to > total) to = total;
    oz_status status = oz_row_open(batch, row, &input);
    changer->stored.size = (size_t)input.size;
    if (!status)
        status = oz_input_read(&input, 0, input.size, &workspace->stored, &changer->stored.data);
    oz_input_close(&input);
    if (status || !oz_blosc1_has_such_blocks(step, changer->stored, total)) return OZ_NOT_SMALLER;
    if (oz_buffer_reserve(&workspace->decoded, total) ||
        oz_buffer_reserve(&workspace->encoded, total + OZ_BLOSC_HEADER + 4))
        return OZ_NO_MEMORY;
    unsigned char *target = workspace->decoded.data; /* borrowed from the workspace */
    oz_blosc1 buffer;
    input = oz_input_from(changer->stored);
    if (oz_blosc1_open(workspace, &input, pipeline->nbytes, &buffer) ||
        oz_blosc1_decode(&buffer, workspace, &input, (int64_t)from, (int64_t)to, target + from))
        return OZ_NOT_SMALLER;
    for (int i = 0; i < pipeline->ndim; i++) {
        strides[i] = pipeline->strides[i] * row->step[i];
        target += row->inner[i] * pipeline->strides[i];
    }
    oz_copy_box(pipeline, row->count, oz_row_array(batch, row), batch->strides, target, strides);
    changer->decoded = workspace->decoded.data;
    if (!pipeline->keep_empty &&
        oz_is_fill(pipeline, changer->decoded + from, (int64_t)(to - from)))
        return OZ_NOT_SMALLER;
    unsigned char *out = workspace->encoded.data; /* borrowed from the workspace */
    *result = (oz_bytes){out, 0};
    status = oz_blosc1_encode_blocks(step, workspace, &changer->source, total, out, &result->size);
    return status == OZ_INVALID ? OZ_NOT_SMALLER : status;
}

oz_status oz_write_row(oz_batch *batch, oz_workspace *workspace, int64_t number, int64_t slice) {
    const oz_pipeline *pipeline = batch->pipeline;
    oz_row row;
    oz_get_row(batch, number, &row);
    if (pipeline->inner) return oz_write_shard(batch, workspace, &row, slice);
    int as_is = is_stored_as_is(batch, &row);
    int64_t planes = as_is ? 0 : planes_at_once(batch, &row);
    block_changer changer = {.source = {get_changed, get_unchanged}};
    oz_bytes value;
    oz_status status = OZ_NOT_SMALLER;
    if (as_is) {
        status = oz_encode(pipeline, workspace, oz_row_array(batch, &row), &value);
    } else if (planes) {
        plane_copier copier = {{get_planes, NULL},        batch, workspace, &row,
                               oz_row_array(batch, &row), planes};
        size_t size = (size_t)(planes * pipeline->strides[pipeline->permutation[0]]);
        if (oz_buffer_reserve(&workspace->decoded, size)) return OZ_NO_MEMORY;
        if (pipeline->nsteps == 0) return write_planes(batch, &copier);
        status = encode_planes(&copier, &value);
    } else if (blocks_alone(batch, &row, &changer)) {
        status = change_blocks(batch, workspace, &row, &changer, &value);
    }
    if (status == OZ_NOT_SMALLER) {
        status = gather(batch, workspace, &row);
        if (!status) status = oz_encode(pipeline, workspace, workspace->decoded.data, &value);
    }
    if (status) return status;
    oz_output output;
    oz_output_start(&output, &row);
    if (value.data) status = oz_output_write(batch, &output, value, 0);
    return oz_output_finish(batch, &output, status);
}
