#include "chunks/shards.h"

#include "rows/output.h"
#include "rows/shard_index.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The encoded inner chunks of one slice, one after the other. */
typedef struct {
    unsigned char *data; /* owned: grown by encode_slice, freed when written or with the job */
    size_t size, room;
    int finished;
} shard_slice;

/* Owned by the batch; the lock guards everything but the slice that a thread encodes. */
struct oz_shard_job {
    pthread_mutex_t lock;
    oz_output output;
    unsigned char *index; /* owned: freed when it is written or with the job */
    size_t at;            /* offset of the next slice */
    int64_t written;      /* slices */
    oz_status status;     /* the first failure */
    shard_slice slices[];
};

/* The old value of a shard. */
typedef struct {
    oz_input input;             /* owned: closed by change_shard */
    const unsigned char *index; /* borrowed from the input or the workspace; NULL: no value */
} stored_shard;

/* An inner chunk as it will be stored. */
typedef struct {
    int touched;    /* 0: the row does not touch it, and it keeps its old value */
    oz_bytes value; /* borrowed from the workspace; NULL data: only the fill value */
} inner_value;

static oz_status write_index(const oz_batch *batch, oz_output *output, unsigned char *index,
                             size_t at) {
    oz_bytes bytes = {index, oz_index_size(batch->pipeline)};
    oz_index_seal(batch->pipeline, index);
    return oz_output_write(batch, output, bytes, batch->pipeline->index_at_end ? at : 0);
}

/* Open the old value, to be closed in any case, and check its index. */
static oz_status open_shard(const oz_batch *batch, oz_workspace *workspace, const oz_row *row,
                            stored_shard *old) {
    const oz_pipeline *pipeline = batch->pipeline;
    const unsigned char *index; /* borrowed from the input or the workspace */
    oz_status status = oz_row_open(batch, row, &old->input);
    if (status == OZ_MISSING) return OZ_OK;
    if (!status) status = oz_index_read(pipeline, &old->input, &workspace->index, &index);
    if (status) return status;
    uint64_t all = (uint64_t)old->input.size;
    for (int64_t n = 0; n < pipeline->inner_count; n++) {
        oz_index_entry entry = oz_index_get(pipeline, index, n);
        if (oz_is_missing(entry)) continue;
        if (entry.offset > all || entry.size > all - entry.offset) return OZ_INVALID;
    }
    old->index = index;
    return OZ_OK;
}

static oz_index_entry old_entry(const oz_pipeline *pipeline, const stored_shard *old, int64_t n) {
    if (!old->index) return (oz_index_entry){OZ_MISSING_ENTRY, OZ_MISSING_ENTRY};
    return oz_index_get(pipeline, old->index, n);
}

/* Make the decoded inner chunk `n` in the workspace, from its old value and a box of the array. */
static oz_status change_inner(const oz_batch *batch, oz_workspace *workspace, stored_shard *old,
                              int64_t n, const oz_box *box) {
    const oz_pipeline *inner = batch->pipeline->inner;
    int64_t strides[OZ_MAX_AXES];
    int full = 1;
    for (int i = 0; i < inner->ndim; i++) {
        strides[i] = inner->strides[i] * box->step[i];
        full &= box->count[i] == inner->shape[i];
    }
    oz_status status =
        oz_buffer_reserve(&workspace->decoded, inner->nbytes ? (size_t)inner->nbytes : 1);
    if (status) return status;
    unsigned char *target = workspace->decoded.data; /* borrowed from the workspace */
    oz_index_entry entry = old_entry(batch->pipeline, old, n);
    if (!full && entry.offset != OZ_MISSING_ENTRY) {
        oz_bytes in = {NULL, (size_t)entry.size};
        status = oz_input_read(&old->input, (int64_t)entry.offset, (int64_t)entry.size,
                               &workspace->stored, &in.data);
        if (!status) status = oz_decode_into(inner, workspace, in, target);
        if (status) return status;
    } else if (!full) {
        oz_put_fill(inner, target);
    }
    for (int i = 0; i < inner->ndim; i++) target += box->start[i] * inner->strides[i];
    oz_copy_box(inner, box->count, box->array, box->strides, target, strides);
    return OZ_OK;
}

/* Encode inner chunk `n` where the row touches it. */
static oz_status encode_inner(const oz_batch *batch, oz_workspace *workspace, const oz_row *row,
                              stored_shard *old, int64_t n, inner_value *result) {
    const oz_pipeline *pipeline = batch->pipeline, *inner = pipeline->inner;
    int64_t rest = n, start[OZ_MAX_AXES], count[OZ_MAX_AXES];
    oz_box box = {start, count, row->step, oz_row_array(batch, row), batch->strides};
    *result = (inner_value){0, {NULL, 0}};
    for (int i = pipeline->ndim - 1; i >= 0; i--) {
        int64_t low = rest % pipeline->counts[i] * inner->shape[i];
        oz_run run = {row->inner[i], row->count[i], row->step[i]};
        oz_clipped part;
        rest /= pipeline->counts[i];
        if (!oz_clip(&run, low, low + inner->shape[i], &part)) return OZ_OK;
        start[i] = part.inner, count[i] = part.count;
        box.array += part.outer * batch->strides[i];
    }
    result->touched = 1;
    oz_status status = change_inner(batch, workspace, old, n, &box);
    return status ? status : oz_encode(inner, workspace, workspace->decoded.data, &result->value);
}

/* Old bytes that are still to be copied, collected into runs as long as possible. */
typedef struct {
    int64_t from;
    size_t size;
} pending_copy;

static oz_status copy_pending(const oz_batch *batch, oz_output *output, stored_shard *old,
                              pending_copy *pending, size_t at) {
    size_t size = pending->size;
    pending->size = 0;
    if (!size) return OZ_OK;
    return oz_output_copy(batch, output, &old->input, pending->from, size, at - size);
}

/* Write all inner chunks, touched or not, and the index, which is made in `index`. */
static oz_status rewrite_shard(oz_batch *batch, oz_workspace *workspace, oz_output *output,
                               stored_shard *old, unsigned char *index) {
    const oz_pipeline *pipeline = batch->pipeline;
    size_t at = pipeline->index_at_end ? 0 : oz_index_size(pipeline);
    pending_copy pending = {0, 0};
    oz_status status = OZ_OK;
    for (int64_t k = 0; k < pipeline->inner_count && !status; k++) {
        inner_value made;
        int64_t n = oz_stored_inner(pipeline, k);
        status = encode_inner(batch, workspace, &output->row, old, n, &made);
        if (status) return status;
        oz_index_entry entry = old_entry(pipeline, old, n);
        int exists = made.touched ? made.value.data != NULL : entry.offset != OZ_MISSING_ENTRY;
        size_t size = made.touched ? made.value.size : (size_t)entry.size;
        oz_index_entry none = {OZ_MISSING_ENTRY, OZ_MISSING_ENTRY}, here = {at, size};
        oz_index_put(pipeline, index, n, exists ? here : none);
        if (!exists) continue;
        int continues = !made.touched && pending.size &&
                        pending.from + (int64_t)pending.size == (int64_t)entry.offset;
        if (!continues) status = copy_pending(batch, output, old, &pending, at);
        if (made.touched) {
            if (!status) status = oz_output_write(batch, output, made.value, at);
        } else {
            if (!continues) pending.from = (int64_t)entry.offset;
            pending.size += size;
        }
        at += size;
    }
    if (!status) status = copy_pending(batch, output, old, &pending, at);
    if (!status && output->used) status = write_index(batch, output, index, at);
    return status;
}

/* Write part of a shard. */
static oz_status change_shard(oz_batch *batch, oz_workspace *workspace, const oz_row *row) {
    stored_shard old = {.input = {.file = -1}};
    oz_output output;
    oz_output_start(&output, row);
    unsigned char *index = malloc(oz_index_size(batch->pipeline)); /* owned: freed below */
    oz_status status = index ? open_shard(batch, workspace, row, &old) : OZ_NO_MEMORY;
    if (!status) status = rewrite_shard(batch, workspace, &output, &old, index);
    oz_input_close(&old.input);
    free(index);
    return oz_output_finish(batch, &output, status);
}

/* Return 1 where a row replaces all that its shard has of the array, from the first element on. */
static int is_whole(const oz_batch *batch, const oz_row *row) {
    for (int i = 0; i < batch->pipeline->ndim; i++)
        if (row->inner[i] != 0 || (row->step[i] != 1 && row->count[i] != 1)) return 0;
    return row->whole;
}

static int any_listed_whole(const oz_batch *batch) {
    for (int64_t n = 0; n < batch->rows; n++) {
        oz_row row;
        oz_get_row(batch, n, &row);
        if (is_whole(batch, &row)) return 1;
    }
    return 0;
}

int oz_any_whole_shard(const oz_batch *batch) {
    if (batch->listed.numbers) return any_listed_whole(batch);
    for (int i = 0; i < batch->pipeline->ndim; i++) {
        const oz_axis *a = &batch->axes[i];
        int found = 0;
        for (int64_t k = 0; k < a->length && !found; k++)
            found = a->whole[k] && a->inner[k] == 0 && (a->step == 1 || a->count[k] == 1);
        if (!found) return 0;
    }
    return 1;
}

static void free_job(oz_shard_job *job) {
    pthread_mutex_destroy(&job->lock);
    free(job->index);
    free(job);
}

/* Return the job of a row, made by the thread that comes first; borrowed from the batch. */
static oz_shard_job *job_of(const oz_batch *batch, const oz_row *row) {
    oz_shard_job *found = atomic_load(&batch->jobs[row->number]);
    if (found) return found;
    size_t size = sizeof *found + (size_t)batch->slices * sizeof *found->slices;
    oz_shard_job *made = calloc(1, size); /* owned: by the batch once it is in its table */
    if (!made || !(made->index = malloc(oz_index_size(batch->pipeline)))) {
        free(made);
        return NULL;
    }
    pthread_mutex_init(&made->lock, NULL);
    oz_output_start(&made->output, row);
    made->at = batch->pipeline->index_at_end ? 0 : oz_index_size(batch->pipeline);
    if (atomic_compare_exchange_strong(&batch->jobs[row->number], &found, made)) return made;
    free_job(made);
    return found;
}

/* Append an encoded inner chunk to a slice; `rest` more of about its size may follow. */
static oz_status append(shard_slice *slice, oz_bytes value, size_t rest) {
    if (slice->size + value.size > slice->room) {
        size_t room = slice->size + value.size + rest * (value.size + value.size / 8);
        unsigned char *more = realloc(slice->data, room);
        if (!more) return OZ_NO_MEMORY;
        slice->data = more, slice->room = room;
    }
    memcpy(slice->data + slice->size, value.data, value.size);
    slice->size += value.size;
    return OZ_OK;
}

static oz_status encode_slice(const oz_batch *batch, oz_workspace *workspace, const oz_row *row,
                              oz_shard_job *job, int64_t number) {
    const oz_pipeline *pipeline = batch->pipeline;
    stored_shard none = {.input = {.file = -1}};
    int64_t begin = pipeline->inner_count * number / batch->slices;
    int64_t end = pipeline->inner_count * (number + 1) / batch->slices;
    oz_status status = OZ_OK;
    for (int64_t k = begin; k < end && !status; k++) {
        inner_value made;
        int64_t n = oz_stored_inner(pipeline, k);
        status = encode_inner(batch, workspace, row, &none, n, &made);
        if (status) return status;
        /* The offset is known when the slice is written. */
        oz_index_entry entry = {OZ_MISSING_ENTRY, OZ_MISSING_ENTRY};
        if (made.value.data) {
            entry.size = made.value.size;
            status = append(&job->slices[number], made.value, (size_t)(end - k));
        }
        oz_index_put(pipeline, job->index, n, entry);
    }
    return status;
}

/* Write a finished slice, and put the offsets of its inner chunks into the index. */
static oz_status write_slice(const oz_batch *batch, oz_shard_job *job, int64_t number) {
    const oz_pipeline *pipeline = batch->pipeline;
    oz_bytes bytes = {job->slices[number].data, job->slices[number].size};
    int64_t begin = pipeline->inner_count * number / batch->slices;
    int64_t end = pipeline->inner_count * (number + 1) / batch->slices;
    oz_status status = bytes.size ? oz_output_write(batch, &job->output, bytes, job->at) : OZ_OK;
    for (int64_t k = begin; k < end && !status; k++) {
        int64_t n = oz_stored_inner(pipeline, k);
        oz_index_entry entry = oz_index_get(pipeline, job->index, n);
        if (entry.size == OZ_MISSING_ENTRY) continue;
        entry.offset = job->at;
        oz_index_put(pipeline, job->index, n, entry);
        job->at += entry.size;
    }
    return status;
}

/* Encode one slice of a whole shard. The thread that finishes a slice also writes all those that
 * can be written then. */
static oz_status add_slice(oz_batch *batch, oz_workspace *workspace, const oz_row *row,
                           int64_t slice) {
    oz_shard_job *job = job_of(batch, row);
    if (!job) return OZ_NO_MEMORY;
    oz_status status = encode_slice(batch, workspace, row, job, slice);
    pthread_mutex_lock(&job->lock);
    if (!job->status) job->status = status;
    job->slices[slice].finished = 1;
    for (; job->written < batch->slices && job->slices[job->written].finished; job->written++) {
        shard_slice *next = &job->slices[job->written];
        if (!job->status) job->status = write_slice(batch, job, job->written);
        free(next->data);
        next->data = NULL;
    }
    if (job->written == batch->slices) {
        if (!job->status && job->output.used)
            job->status = write_index(batch, &job->output, job->index, job->at);
        status = oz_output_finish(batch, &job->output, job->status);
        free(job->index);
        job->index = NULL;
    }
    pthread_mutex_unlock(&job->lock);
    return status;
}

oz_status oz_write_shard(oz_batch *batch, oz_workspace *workspace, const oz_row *row,
                         int64_t slice) {
    if (batch->elements) return OZ_UNSUPPORTED; /* their box could take the whole shard */
    if (is_whole(batch, row)) return add_slice(batch, workspace, row, slice);
    return slice == 0 ? change_shard(batch, workspace, row) : OZ_OK;
}

void oz_free_shard_job(oz_batch *batch, oz_shard_job *job) {
    if (!job) return;
    if (job->written < batch->slices) { /* interrupted */
        for (int64_t i = 0; i < batch->slices; i++) free(job->slices[i].data);
        oz_output_finish(batch, &job->output, OZ_UNSUPPORTED);
    }
    free_job(job);
}
