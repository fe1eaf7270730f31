#include "rows/shard_index.h"

enum { ENTRY = 16, CHECKSUM = 4 }; /* bytes */

static uint64_t get_u64(const oz_pipeline *pipeline, const unsigned char *p) {
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v |= (uint64_t)p[pipeline->index_swap ? 7 - i : i] << (8 * i);
    return v;
}

static void put_u64(const oz_pipeline *pipeline, unsigned char *p, uint64_t v) {
    for (int i = 0; i < 8; i++) p[pipeline->index_swap ? 7 - i : i] = (unsigned char)(v >> (8 * i));
}

size_t oz_index_size(const oz_pipeline *pipeline) {
    return ENTRY * (size_t)pipeline->inner_count + (pipeline->index_checksum ? CHECKSUM : 0);
}

oz_status oz_index_read(const oz_pipeline *pipeline, oz_input *input, oz_buffer *buffer,
                        const unsigned char **index) {
    int64_t size = (int64_t)oz_index_size(pipeline);
    if (input->size < size) return OZ_INVALID;
    int64_t at = pipeline->index_at_end ? input->size - size : 0;
    oz_status status = oz_input_read(input, at, size, buffer, index);
    if (status || !pipeline->index_checksum) return status;
    size_t entries = (size_t)size - CHECKSUM;
    return oz_get_u32(*index + entries) == oz_crc32c(*index, entries) ? OZ_OK : OZ_INVALID;
}

oz_index_entry oz_index_get(const oz_pipeline *pipeline, const unsigned char *index, int64_t n) {
    const unsigned char *p = index + ENTRY * n;
    return (oz_index_entry){get_u64(pipeline, p), get_u64(pipeline, p + 8)};
}

void oz_index_put(const oz_pipeline *pipeline, unsigned char *index, int64_t n,
                  oz_index_entry entry) {
    put_u64(pipeline, index + ENTRY * n, entry.offset);
    put_u64(pipeline, index + ENTRY * n + 8, entry.size);
}

void oz_index_seal(const oz_pipeline *pipeline, unsigned char *index) {
    size_t entries = ENTRY * (size_t)pipeline->inner_count;
    if (pipeline->index_checksum) oz_put_u32(index + entries, oz_crc32c(index, entries));
}
