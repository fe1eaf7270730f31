/* One batch of rows, each a chunk: what the threads share. */
#ifndef OMNIZARR_ROWS_H
#define OMNIZARR_ROWS_H

#include "kernel.h"

#include <limits.h>
#include <stdatomic.h>

typedef struct {
    int64_t length;
    const int64_t *chunk, *inner, *outer, *count;
    const unsigned char *whole;
    int64_t step;
} axis_t;

typedef struct {
    const unsigned char *data; /* NULL: no such key */
    size_t size;
} value_t;

typedef struct {
    const chain_t *chain;
    axis_t axes[MAX_AXES];
    int64_t rows;
    /* Keys below an open directory, or values in memory. */
    int directory;
    const value_t *values;
    char prefix[PATH_MAX];
    int prefix_size, style, separator;
    /* The array that is filled or stored. */
    unsigned char *array;
    int64_t strides[MAX_AXES];
    int writing;
    int64_t slices; /* how many threads may share one shard */
    atomic_llong next;
    unsigned char *failed; /* a flag for each row */
} batch_t;

typedef struct {
    int64_t coords[MAX_AXES], inner[MAX_AXES], outer[MAX_AXES], count[MAX_AXES];
    int whole;
} row_t;

/* Where encoded bytes are: an open file, or memory. */
typedef struct {
    int file;
    const unsigned char *data;
    int64_t size;
} source_t;

#define MISSING UINT64_MAX /* in a shard's index */
enum { ABSENT = 1 };       /* of open_source: there is no such key */

int open_source(const batch_t *b, const row_t *row, int64_t number, source_t *source);
void close_source(source_t *source);
int read_exactly(int file, unsigned char *to, size_t size, int64_t from);
/* Part of a source, in `buffer` where it has to be read. */
int fetch(source_t *source, int64_t from, int64_t size, buffer_t *buffer,
          const unsigned char **data);
void row_at(const batch_t *b, int64_t number, row_t *row);
int row_key(const batch_t *b, const row_t *row, char *key);
int read_row(const batch_t *b, scratch_t *s, int64_t number, int64_t slice);
int write_row(const batch_t *b, scratch_t *s, int64_t number);
void work(batch_t *b);

#endif
