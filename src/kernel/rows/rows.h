/* One batch of rows, each a chunk or a shard: what its threads share. */
#ifndef OZ_ROWS_H
#define OZ_ROWS_H

#include "rows/box.h"

#include <limits.h>
#include <stdatomic.h>

/* Positions that follow each other: the first one in the chunk and in the array, and how many. */
typedef struct {
    int64_t inner, outer, count;
} oz_segment;

/* The chunks along one axis, as columns. They are copies of Python's, so nothing can change them
 * while the threads run. */
typedef struct {
    int64_t length;
    /* Owned: one allocation at `chunk`, freed by oz_free_plan. Of each chunk: its position in the
     * grid, the first element in it and in the array, how many, and 1 where that is all of it. */
    int64_t *chunk, *inner, *outer, *count, *whole;
    int64_t step;
    /* Owned: freed by oz_free_plan; NULL for runs. Listed positions: where those of a chunk begin,
     * and of each its position in the chunk and in the array. */
    int64_t *begin, *inner_at, *outer_at;
    /* Owned, and NULL for runs, as those: the same positions as segments, and where the segments of
     * a chunk begin. */
    oz_segment *segments;
    int64_t *segment_begin;
} oz_axis;

/* Single points, sorted by chunk. */
typedef struct {
    /* Owned: freed by oz_free_plan. Of each chunk its position in the grid, and where its points
     * begin; of each point its position in the chunk (axis after axis) and in the array. */
    int64_t *coords, *begin, *inner, *outer;
    int64_t count;
} oz_points;

/* Rows that are listed one by one, each with a key of its own. */
typedef struct {
    /* Owned: freed by oz_free_plan. Of each row, axis after axis: the first element in the chunk
     * and in the array, their number, and the step in the chunk; then 1 where the row is whole. */
    int64_t *numbers;
    /* Owned: freed by oz_free_plan. The keys, one after the other, and where each begins. */
    char *keys;
    size_t *key_at;
} oz_listed_rows;

/* A value in memory: one that is read, or one that grows. */
typedef struct {
    const unsigned char *data; /* borrowed from a Python bytes object; NULL: missing */
    unsigned char *own;        /* owned: grown by output.c, freed with the batch */
    size_t size, room;
} oz_value;

typedef struct oz_shard_job oz_shard_job; /* a shard that several threads write (chunks/shards.c) */

/* Owned by the Python call `run`, which frees it when all threads have ended. */
typedef struct oz_batch {
    const oz_pipeline *pipeline; /* borrowed from the capsule of the call */
    oz_axis axes[OZ_MAX_AXES];
    oz_points points;
    oz_listed_rows listed; /* without axes and points */
    int elements; /* 1: rows are boxes around points or listed positions */
    int64_t rows;
    /* Keys relative to a directory, or values in memory. */
    int directory;      /* owned: closed with the batch; AT_FDCWD: the prefix is a path; -1: none */
    int local;          /* of the directory: see oz_is_local */
    oz_value *values;   /* owned: freed with the batch; the old values of the rows; NULL: files */
    oz_value *stored;   /* owned: freed with the batch; the new values; NULL: files */
    const char *prefix; /* borrowed from the call's arguments, or from `path` */
    size_t prefix_size;
    char *path; /* owned: freed with the batch; directory and prefix, where that is not opened */
    int key_style, separator;
    /* The array that is filled or stored. */
    unsigned char *array; /* borrowed from the Py_buffer of the call */
    int64_t strides[OZ_MAX_AXES];
    int writing;
    int sync;             /* values are on the disk before they are visible */
    int skip_missing;     /* rows that would get the fill value are not done */
    /* Owned: freed with the batch; 1 for rows that have no value; NULL where nobody asks. */
    atomic_uchar *missing;
    atomic_int absent;    /* set when a row has no value */
    atomic_int replacing; /* set when a key was found to exist */
    /* Work. A row may be shared by several threads, each of which takes a slice of the shard. */
    int64_t slices;
    int threads;
    int helpers;            /* more threads for each of them, to encode one chunk */
    atomic_llong next;      /* the next slice to take */
    atomic_uchar *statuses; /* owned: freed with the batch; an oz_status for each row */
    /* Owned: freed with the batch, as the next. NULL where no row is written in slices. */
    _Atomic(oz_shard_job *) *jobs;
    /* Of the file that each row was read from; NULL where threads do not share rows. */
    atomic_ullong *identities;
    atomic_int stop;
    void *python; /* borrowed: the saved thread state of the calling thread */
} oz_batch;

/* A chunk or shard of a batch, and the box of it that is read or written. */
typedef struct {
    int64_t number;
    int64_t coords[OZ_MAX_AXES];                    /* position in the grid */
    int64_t inner[OZ_MAX_AXES], outer[OZ_MAX_AXES]; /* first element in the chunk, in the array */
    int64_t count[OZ_MAX_AXES];
    int64_t step[OZ_MAX_AXES];
    int64_t part[OZ_MAX_AXES]; /* position in the columns of each axis; of points: [0] only */
    int whole;                 /* 1: all that the chunk has of the array is replaced */
} oz_row;

/* A run of positions along an axis, and the part of it in a range. */
typedef struct {
    int64_t start, count, step;
} oz_run;
typedef struct {
    int64_t inner; /* first position, counted from the begin of the range */
    int64_t outer; /* number of positions before it */
    int64_t count;
} oz_clipped;

/* The inner chunks of a shard that a row touches, as a box of them. */
typedef struct {
    int64_t first[OZ_MAX_AXES], count[OZ_MAX_AXES], total;
} oz_inner_box;

/* Numbers of one listed row. */
static inline int64_t oz_listed_size(int ndim) { return 4 * (int64_t)ndim + 1; }

void oz_get_row(const oz_batch *batch, int64_t number, oz_row *row);

/* Write the key of a row, with the prefix, to `key`, which has room for PATH_MAX bytes. */
oz_status oz_row_key(const oz_batch *batch, const oz_row *row, char *key);

/* Open the stored value of a row; OZ_MISSING where there is none. Always followed by
 * oz_input_close. */
oz_status oz_row_open(const oz_batch *batch, const oz_row *row, oz_input *input);

/* Return the element of the array that is first in a row's box, borrowed. */
unsigned char *oz_row_array(const oz_batch *batch, const oz_row *row);

/* Set the part of a run from `low` to before `high`; return 0 where there is none. */
int oz_clip(const oz_run *run, int64_t low, int64_t high, oz_clipped *part);

void oz_touched_inner(const oz_pipeline *pipeline, const oz_row *row, oz_inner_box *touched);

#endif
