/* The codec pipeline of a chunk: its layout as an array, and the codecs from bytes to bytes. */
#ifndef OZ_PIPELINE_H
#define OZ_PIPELINE_H

#include "codecs/codecs.h"

/* Owned by a Python capsule (python/pipeline_object.c); everything else borrows it. */
typedef struct oz_pipeline {
    int ndim;
    int64_t shape[OZ_MAX_AXES];       /* of a chunk, in the array's order of axes */
    int64_t permutation[OZ_MAX_AXES]; /* stored axis i is the array's axis permutation[i] */
    int64_t strides[OZ_MAX_AXES];     /* of a decoded chunk, in the array's order of axes */
    int64_t itemsize;
    int64_t nbytes; /* of a decoded chunk */
    int swap;       /* size of the units whose bytes are swapped, or 0 */
    int nsteps;
    oz_step steps[OZ_MAX_STEPS];
    unsigned char fill[OZ_MAX_ITEM]; /* the fill value */
    int keep_empty;                  /* also store chunks that only hold the fill value */
    /* 1 or 2: items are so many floating-point numbers, and are the fill value where they compare
     * equal to it, or both are not numbers; 0: items that have its bytes. */
    int fill_parts;
    /* Of a shard: */
    struct oz_pipeline *inner;   /* owned: freed with this one; NULL: not a shard */
    int64_t counts[OZ_MAX_AXES]; /* inner chunks along each axis */
    int64_t inner_count;
    int64_t *sequence; /* owned: freed with this one; inner chunks as they are stored; NULL: in order */
    int index_checksum, index_swap, index_at_end;
} oz_pipeline;

/* Return the inner chunk that is stored at a place, counted from the first. */
static inline int64_t oz_stored_inner(const oz_pipeline *pipeline, int64_t place) {
    return pipeline->sequence ? pipeline->sequence[place] : place;
}

/* Decode a chunk, or at least the first `needed` bytes of it. `*result` is `target`, which has room
 * for all of it, a buffer of the workspace, or part of `in` itself. */
oz_status oz_decode(const oz_pipeline *pipeline, oz_workspace *workspace, oz_bytes in,
                    size_t needed, unsigned char *target, const unsigned char **result);

/* Decode a chunk into `target` and swap its bytes. */
oz_status oz_decode_into(const oz_pipeline *pipeline, oz_workspace *workspace, oz_bytes in,
                         unsigned char *target);

/* Return 1 where single blocks of Blosc can be decoded: only checksums follow it. */
int oz_blosc_is_last(const oz_pipeline *pipeline);

/* Verify the checksums that follow Blosc, and cut them off. */
oz_status oz_verify_checksums(const oz_pipeline *pipeline, oz_bytes *data);

/* Encode a decoded chunk, whose bytes may be swapped in place. The result is `data` itself or is in
 * the workspace; its data are NULL for a chunk that is not stored because it only holds the fill
 * value. */
oz_status oz_encode(const oz_pipeline *pipeline, oz_workspace *workspace, unsigned char *data,
                    oz_bytes *result);

/* Encode bytes with the codecs from number `first` on. */
oz_status oz_encode_from(const oz_pipeline *pipeline, oz_workspace *workspace, int first,
                         oz_bytes in, oz_bytes *result);

void oz_swap_bytes(unsigned char *data, int64_t size, int unit);

/* Return 1 where all of one or more items are the fill value. */
int oz_is_fill(const oz_pipeline *pipeline, const unsigned char *data, int64_t size);

/* Set all items of a decoded chunk to the fill value. */
void oz_put_fill(const oz_pipeline *pipeline, unsigned char *data);

#endif
