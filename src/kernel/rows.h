/* One batch of rows, each a chunk: what the threads share. */
#ifndef OMNIZARR_ROWS_H
#define OMNIZARR_ROWS_H

#include "fresh.h"
#include "kernel.h"

#include <limits.h>
#include <stdatomic.h>

/* The columns of one axis, in memory of its own: nobody can change them meanwhile. */
typedef struct {
    int64_t length;
    int64_t *chunk, *inner, *outer, *count, *whole;
    int64_t step;
    int64_t *begin, *at, *to; /* listed positions: where those of a chunk begin, in it, outside */
} axis_t;

/* Single points, sorted by chunk. */
typedef struct {
    int64_t *coords, *begin; /* of each chunk: its place in the grid, where its points begin */
    int64_t *inner, *outer;  /* of each point: axes one after the other; in the array */
    int64_t count;
} points_t;

/* A value in memory: one that is read, or one that grows. */
typedef struct {
    const unsigned char *data; /* NULL: no such key */
    unsigned char *own;
    size_t size, room;
} value_t;

typedef struct job job_t; /* a shard that several threads write */

typedef struct {
    const chain_t *chain;
    axis_t axes[MAX_AXES];
    points_t points;
    int picks; /* whether rows are boxes around points or listed positions */
    int64_t rows;
    /* Keys below a directory, or values in memory. */
    int directory;
    const value_t *values; /* as they are before */
    value_t *stored;       /* of rows that are written to memory */
    const char *prefix;
    size_t prefix_size;
    char *path; /* of the directory and the prefix, where that is not open */
    int style, separator;
    /* The array that is filled or stored. */
    unsigned char *array;
    int64_t strides[MAX_AXES];
    int writing, sync; /* sync: values are on the disk before they are seen */
    atomic_int replacing; /* whether a key was met that is there already */
    int leave_absent; /* whether rows that would get the fill value are left */
    int64_t slices; /* how many threads may share one shard */
    atomic_llong next;
    atomic_uchar *failed; /* a flag for each row */
    _Atomic(job_t *) *jobs; /* where shards are written: one for each row */
    atomic_ullong *seen;  /* where threads share shards: the file that each row was read from */
    atomic_int stop;
    void *python; /* the state of the thread that called */
} batch_t;

typedef struct {
    int64_t coords[MAX_AXES], inner[MAX_AXES], outer[MAX_AXES], count[MAX_AXES];
    int64_t part[MAX_AXES]; /* its place in the columns of each axis; of points: the first only */
    int whole;
} row_t;

/* One value that is written piece by piece. */
typedef struct {
    row_t row;
    int64_t number;
    fresh_t fresh;
    int used;
} sink_t;

/* sink.c: without a piece the key is removed; nothing is seen before the end, or if `bad`. */
void sink_start(sink_t *sink, const row_t *row, int64_t number);
int sink_write(const batch_t *b, sink_t *sink, const unsigned char *data, size_t size, size_t at);
int sink_copy(const batch_t *b, sink_t *sink, source_t *source, int64_t from, size_t size,
              size_t at);
int sink_finish(batch_t *b, sink_t *sink, int bad);

#define SLAB (128 << 10)   /* bytes that stay in the cache of one core */
#define MISSING UINT64_MAX /* in a shard's index */
enum { ABSENT = 1 };       /* of open_source: there is no such key */

int open_source(const batch_t *b, const row_t *row, int64_t number, source_t *source);
void close_source(source_t *source);
/* One number of a shard's index. */
uint64_t index_entry(const chain_t *c, const unsigned char *p);
/* The part of one axis of a box that lies in an inner chunk; 0 where there is none. */
int clip(int64_t start, int64_t count, int64_t step, int64_t low, int64_t high, int64_t *inner,
         int64_t *outer, int64_t *number);
void row_at(const batch_t *b, int64_t number, row_t *row);
int row_key(const batch_t *b, const row_t *row, char *key);
/* picks.c: elements between a box, given by its first one, and the array. */
void move_picks(const batch_t *b, const row_t *row, unsigned char *box, const int64_t *strides,
                int storing);
void points_at(const batch_t *b, int64_t number, row_t *row);
/* A mark for each of the inner chunks in a box: whether an element lies in it. To be freed. */
unsigned char *wanted_inner(const batch_t *b, const row_t *row, const int64_t *low,
                            const int64_t *many, int64_t total);
/* About how many bytes have to be read, decoded or encoded for a row. */
int64_t row_effort(const batch_t *b, const row_t *row);
int read_row(const batch_t *b, scratch_t *s, int64_t number, int64_t slice);
int write_row(batch_t *b, scratch_t *s, int64_t number, int64_t slice);
/* The encoded chunk, or NULL where it holds nothing but the fill value. */
int encode(const chain_t *c, scratch_t *s, unsigned char *data, const unsigned char **result,
           size_t *size);
/* Whether a batch may have shards that are written whole, and so slice by slice. */
int any_plain(const batch_t *b);
int write_shard(batch_t *b, scratch_t *s, const row_t *row, int64_t number, int64_t slice);
/* Also one that was interrupted, or none. */
void drop_job(batch_t *b, job_t *job);
/* Takes rows until there are none left; now and then asks whether to stop, where it may. */
void work(batch_t *b, int (*interrupted)(batch_t *));

#endif
