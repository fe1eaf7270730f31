/* The index of a shard: the offset and the size of each inner chunk, and a checksum. */
#ifndef OZ_SHARD_INDEX_H
#define OZ_SHARD_INDEX_H

#include "codecs/pipeline.h"

#define OZ_MISSING_ENTRY UINT64_MAX /* offset and size of an inner chunk that is missing */

typedef struct {
    uint64_t offset, size;
} oz_index_entry;

/* Return the size of the index in bytes, with its checksum. */
size_t oz_index_size(const oz_pipeline *pipeline);

/* Read the index of a stored shard and verify its checksum. `*index` is borrowed from the input or
 * the buffer. */
oz_status oz_index_read(const oz_pipeline *pipeline, oz_input *input, oz_buffer *buffer,
                        const unsigned char **index);

oz_index_entry oz_index_get(const oz_pipeline *pipeline, const unsigned char *index, int64_t n);
void oz_index_put(const oz_pipeline *pipeline, unsigned char *index, int64_t n,
                  oz_index_entry entry);

/* Put the checksum behind the entries. */
void oz_index_seal(const oz_pipeline *pipeline, unsigned char *index);

static inline int oz_is_missing(oz_index_entry entry) {
    return entry.offset == OZ_MISSING_ENTRY && entry.size == OZ_MISSING_ENTRY;
}

#endif
