#include "chunks/batch.h"

#include "chunks/read.h"
#include "chunks/shards.h"
#include "chunks/write.h"
#include "codecs/threads.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SLICE (1 << 20)                /* decoded bytes of a shard that a thread encodes at once */
#define INTERRUPT_INTERVAL 100000000LL /* nanoseconds between two checks for signals */

/* Return about how many times as long a byte takes as one that is copied or that LZ4 handles. */
static int64_t cost_per_byte(const oz_pipeline *pipeline, int writing) {
    int64_t most = 1;
    for (int i = 0; i < pipeline->nsteps; i++) {
        const oz_step *step = &pipeline->steps[i];
        int slow_blosc = step->codec == OZ_BLOSC && step->compressor != OZ_BLOSC_LZ4 &&
                         step->compressor != OZ_BLOSC_SNAPPY;
        int64_t cost = step->codec == OZ_GZIP || step->codec == OZ_ZLIB ? 4
                       : step->codec == OZ_ZSTD || slow_blosc           ? 2
                                                                        : 1;
        if (cost > 1 && writing) cost *= 4;
        if (cost > most) most = cost;
    }
    return most;
}

/* Estimate the cost of a row: bytes to read, decode or encode, weighted by their codecs. */
static int64_t estimate_cost(const oz_batch *batch, const oz_row *row) {
    const oz_pipeline *pipeline = batch->pipeline;
    const oz_pipeline *inner = pipeline->inner ? pipeline->inner : pipeline;
    int64_t first, end, bytes = pipeline->itemsize;
    for (int i = 0; i < pipeline->ndim && !pipeline->inner; i++) bytes *= row->count[i];
    if (pipeline->inner) {
        oz_inner_box touched;
        oz_touched_inner(pipeline, row, &touched);
        bytes = touched.total * inner->nbytes;
    }
    int64_t cost = cost_per_byte(inner, batch->writing);
    if (pipeline->inner || (inner->nsteps == 0 && !batch->writing)) return cost * bytes;
    if (batch->writing || !oz_blosc_is_last(pipeline)) return cost * pipeline->nbytes;
    oz_box box = {row->inner, row->count, row->step, NULL, NULL};
    oz_box_range(pipeline, &box, &first, &end);
    return cost * (end - first);
}

static int useful_threads(const oz_batch *batch, int most, int64_t min_bytes) {
    int64_t cost = 0;
    if (most < 1) most = 1;
    if (most > OZ_MAX_THREADS) most = OZ_MAX_THREADS;
    for (int64_t n = 0; n < batch->rows && cost / most < min_bytes; n++) {
        oz_row row;
        oz_get_row(batch, n, &row);
        cost += estimate_cost(batch, &row);
    }
    int64_t useful = min_bytes > 0 ? cost / min_bytes : most;
    return useful < 1 ? 1 : useful < most ? (int)useful : most;
}

int oz_batch_is_small(const oz_batch *batch, int64_t min_bytes) {
    return useful_threads(batch, 2, min_bytes) == 1;
}

oz_status oz_batch_prepare(oz_batch *batch, int *threads, int64_t min_bytes) {
    const oz_pipeline *pipeline = batch->pipeline;
    size_t rows = (size_t)batch->rows;
    int64_t total;
    int shards = pipeline->inner && !batch->elements;
    int points = pipeline->inner && batch->points.coords; /* each slice sorts all points of a row */
    int useful = *threads = useful_threads(batch, *threads, min_bytes), few = points ? 1 : 4;
    batch->slices = 1;
    if (shards && batch->writing && oz_any_whole_shard(batch)) {
        int64_t wanted = pipeline->nbytes / SLICE, most = pipeline->inner_count;
        batch->slices = wanted < 1 ? 1 : wanted < most ? wanted : most;
        batch->jobs = calloc(rows + 1, sizeof *batch->jobs);
        if (!batch->jobs) return OZ_NO_MEMORY;
    } else if ((shards || points) && !batch->writing && useful > 1 && batch->rows < few * useful) {
        batch->slices = few * useful;
        batch->identities = calloc(rows + 1, sizeof *batch->identities);
        if (!batch->identities) return OZ_NO_MEMORY;
    }
    if (__builtin_mul_overflow(batch->rows, batch->slices, &total)) return OZ_UNSUPPORTED;
    if (total < useful) *threads = (int)total;
    batch->threads = *threads;
    batch->helpers = *threads ? useful / *threads - 1 : 0;
    batch->statuses = calloc(rows + 1, sizeof *batch->statuses);
    return batch->statuses ? OZ_OK : OZ_NO_MEMORY;
}

/* Return 1, and set `last` to now, where the interval has passed since then. */
static int is_due(struct timespec *last) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t passed =
        (int64_t)(now.tv_sec - last->tv_sec) * 1000000000 + now.tv_nsec - last->tv_nsec;
    if (passed < INTERRUPT_INTERVAL) return 0;
    *last = now;
    return 1;
}

/* Take the next slices, from `*first` on, and return their number; 0 where none are left.
 *
 * A thread takes many rows at a time while many are left, and one at the end, so that all end
 * together. Neighbours are often files of one directory, which the system lets only one thread
 * change at a time: so the threads are in different ones. Slices of one shard are taken one by one:
 * they wait in memory until all before them are written. */
static int64_t take_slices(oz_batch *batch, int64_t total, int64_t *first) {
    long long next = atomic_load(&batch->next);
    int64_t count;
    do {
        if (next >= total) return 0;
        count = batch->slices > 1 ? 1 : (total - next) / (4 * batch->threads);
        if (count < 1) count = 1;
    } while (!atomic_compare_exchange_weak(&batch->next, &next, next + count));
    *first = next;
    return count;
}

/* Take slices until there are none left. */
static void work(oz_batch *batch, oz_interrupted *interrupted) {
    oz_workspace *workspace = oz_workspace_take(); /* owned: given back below */
    struct timespec last;
    clock_gettime(CLOCK_MONOTONIC, &last);
    if (workspace) workspace->helpers = batch->helpers;
    int64_t total = batch->rows * batch->slices;
    int64_t n = 0, left = 0;
    for (; !atomic_load(&batch->stop); n++, left--) {
        if (left == 0 && !(left = take_slices(batch, total, &n))) break;
        int64_t row = n / batch->slices, slice = n % batch->slices;
        oz_status status = OZ_NO_MEMORY;
        if (workspace)
            status = batch->writing ? oz_write_row(batch, workspace, row, slice)
                                    : oz_read_row(batch, workspace, row, slice);
        if (status) atomic_store(&batch->statuses[row], (unsigned char)status);
        if (interrupted && is_due(&last) && interrupted(batch)) atomic_store(&batch->stop, 1);
    }
    if (workspace) oz_workspace_give(workspace);
}

static void *thread_main(void *batch) {
    work(batch, NULL);
    return NULL;
}

void oz_batch_run(oz_batch *batch, int threads, oz_interrupted *interrupted) {
    oz_threads others;
    oz_threads_start(&others, threads - 1, thread_main, batch);
    work(batch, interrupted);
    oz_threads_join(&others);
}

void oz_batch_free(oz_batch *batch) {
    for (int64_t i = 0; batch->jobs && i < batch->rows; i++)
        oz_free_shard_job(batch, batch->jobs[i]);
    for (int64_t i = 0; batch->stored && i < batch->rows; i++) free(batch->stored[i].own);
    if (batch->directory >= 0) close(batch->directory);
    free(batch->path), free(batch->values), free(batch->stored);
    free(batch->missing), free(batch->jobs), free(batch->statuses), free(batch->identities),
        free(batch);
}
