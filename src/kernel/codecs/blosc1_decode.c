/* Decoding Blosc-1 buffers block by block, exactly as c-blosc 1 does.
 *
 * libblosc2 decodes them too, but differently: it splits blocks by another rule, leaves the last
 * bytes of a bit-shuffled block unset that is no multiple of the item size, takes empty streams for
 * zeros, and its getitem confuses ranges that are as long as a block but do not begin at one. So
 * only its shuffles and compressors are used. Buffers that c-blosc 1 would not have written are
 * declined, even where it could read them.
 */
#include "codecs/codecs.h"

#include "codecs/bundled.h"

#include <blosc2.h>
#include <string.h>

/* blosclz adds up lengths in an int, which longer streams could make overflow. */
#define MAX_BLOSCLZ (1 << 22)
#define HEAD_ENTRIES 64 /* of the table of blocks that are read with the header */

typedef oz_blosc1 frame;

/* Read and check the header of a buffer of `packed` bytes that should hold `size` bytes. */
static oz_status parse_header(frame *f, const unsigned char *head, int64_t packed, int64_t size) {
    f->flags = head[2], f->format = head[2] >> 5, f->type = head[3];
    f->size = size, f->packed = packed, f->block = oz_get_u32(head + 8);
    if (head[0] != 2 || head[1] != 1 || f->type == 0 || f->flags & OZ_BLOSC_RESERVED)
        return OZ_INVALID;
    if (f->flags & OZ_BLOSC_SHUFFLED && f->flags & OZ_BLOSC_BIT_SHUFFLED)
        return OZ_INVALID; /* a header of Blosc 2 */
    if (f->format > OZ_FORMAT_ZSTD) return OZ_INVALID;
    if (size < 1 || size > INT32_MAX || oz_get_u32(head + 4) != size ||
        oz_get_u32(head + 12) != packed)
        return OZ_INVALID;
    if (f->block < 1 || f->block > size || f->block > OZ_BLOSC_MAX_BLOCK) return OZ_INVALID;
    f->count = (size + f->block - 1) / f->block;
    if (f->flags & OZ_BLOSC_UNCOMPRESSED)
        return packed == OZ_BLOSC_HEADER + size ? OZ_OK : OZ_INVALID;
    return OZ_BLOSC_HEADER + 4 * f->count <= packed ? OZ_OK : OZ_INVALID;
}

static int64_t block_length(const frame *f, int64_t i) {
    return i + 1 < f->count ? f->block : f->size - i * f->block;
}

/* Return the number of streams of a block: one for every byte of an item, or one. */
static int64_t count_streams(const frame *f, int64_t length) {
    int split = !(f->flags & OZ_BLOSC_NOT_SPLIT) && f->type <= 16 && f->block / f->type >= 128;
    return split && length == f->block ? f->type : 1;
}

static void free_decoder(void *context) { blosc2_free_ctx(context); }

/* Decode a stream of another compressor with libblosc2, as a buffer of one block. */
static oz_status decode_other(const frame *f, oz_workspace *workspace, oz_bytes in,
                              unsigned char *out, size_t want) {
    size_t total = OZ_BLOSC_HEADER + 8 + in.size;
    if (f->format == OZ_FORMAT_BLOSCLZ && in.size > MAX_BLOSCLZ) return OZ_UNSUPPORTED;
    oz_status status = oz_buffer_reserve(&workspace->blosc_frame, total);
    if (status) return status;
    unsigned char *p = workspace->blosc_frame.data; /* borrowed from the workspace */
    p[0] = 2, p[1] = 1, p[2] = (unsigned char)(OZ_BLOSC_NOT_SPLIT | f->format << 5), p[3] = 1;
    oz_put_u32(p + 4, (uint32_t)want), oz_put_u32(p + 8, (uint32_t)want);
    oz_put_u32(p + 12, (uint32_t)total);
    oz_put_u32(p + OZ_BLOSC_HEADER, OZ_BLOSC_HEADER + 4);
    oz_put_u32(p + OZ_BLOSC_HEADER + 4, (uint32_t)in.size);
    memcpy(p + OZ_BLOSC_HEADER + 8, in.data, in.size);
    oz_context *context = &workspace->contexts[OZ_BLOSC_DECODER];
    if (!context->data) {
        blosc2_dparams params = BLOSC2_DPARAMS_DEFAULTS;
        params.nthreads = 1;
        *context = (oz_context){blosc2_create_dctx(params), free_decoder, NULL};
        if (!context->data) return OZ_NO_MEMORY;
    }
    int got = blosc2_decompress_ctx(context->data, p, (int32_t)total, out, (int32_t)want);
    return got == (int)want ? OZ_OK : OZ_INVALID;
}

static oz_status decode_stream(const frame *f, oz_workspace *workspace, oz_bytes in,
                               unsigned char *out, size_t want) {
    if (f->format == OZ_FORMAT_LZ4) {
        int got = LZ4_decompress_safe((const char *)in.data, (char *)out, (int)in.size, (int)want);
        return got == (int)want ? OZ_OK : OZ_INVALID;
    }
    if (f->format == OZ_FORMAT_ZSTD) return oz_zstd_decode_any(workspace, in, out, want);
    if (f->format == OZ_FORMAT_SNAPPY) return oz_snappy_decode(in, out, want);
    return decode_other(f, workspace, in, out, want);
}

/* Decode one block of `length` bytes, whose streams are in `in`. */
static oz_status decode_block(const frame *f, oz_workspace *workspace, oz_bytes in,
                              unsigned char *out, int64_t length) {
    int64_t streams = count_streams(f, length), part = length / streams;
    int64_t size = (int64_t)in.size;
    const unsigned char *data = in.data;
    int bytes = f->flags & OZ_BLOSC_SHUFFLED && f->type > 1;
    int bits = f->flags & OZ_BLOSC_BIT_SHUFFLED && length >= f->type;
    oz_buffer *filter = &workspace->blosc_filter;
    if (length % streams) return OZ_INVALID;
    if ((bytes || bits) && oz_buffer_reserve(filter, (size_t)length)) return OZ_NO_MEMORY;
    unsigned char *to = bytes || bits ? filter->data : out;
    for (int64_t k = 0; k < streams; k++, to += part) {
        if (size < 4) return OZ_INVALID;
        int64_t packed = oz_get_u32(data);
        data += 4, size -= 4;
        if (packed < 1 || packed > part || packed > size) return OZ_INVALID;
        if (packed == part) {
            memcpy(to, data, (size_t)part);
        } else {
            oz_bytes stream = {data, (size_t)packed};
            oz_status status = decode_stream(f, workspace, stream, to, (size_t)part);
            if (status) return status;
        }
        data += packed, size -= packed;
    }
    int32_t type = f->type, n = (int32_t)length;
    if (bytes) return blosc2_unshuffle(type, n, filter->data, out) < 0 ? OZ_INVALID : OZ_OK;
    if (!bits) return OZ_OK;
    if (n / type % 8 == 0)
        return blosc2_bitunshuffle(type, n, filter->data, out) < 0 ? OZ_INVALID : OZ_OK;
    memcpy(out, filter->data, (size_t)n); /* bits are shuffled in groups of eight items only */
    return OZ_OK;
}

/* The bytes of a block that are wanted, and in which the streams of a block are cut. */
typedef struct {
    int64_t from, to;
    int64_t streams, part; /* the number of streams, and the bytes in each */
    int64_t first, last;   /* items that have these bytes, where each byte of an item is a stream */
} block_range;

/* Decode the bytes `low` to `high` of a stream of `part` bytes. LZ4 decodes no more than up to the
 * end of them. */
static oz_status decode_stream_range(const frame *f, oz_workspace *workspace, oz_bytes in,
                                     const block_range *range, int64_t low, int64_t high,
                                     unsigned char *out) {
    size_t part = (size_t)range->part;
    if (in.size == part) {
        memcpy(out, in.data + low, (size_t)(high - low));
        return OZ_OK;
    }
    oz_status status = oz_buffer_reserve(&workspace->blosc_block, part);
    if (status) return status;
    unsigned char *scratch = workspace->blosc_block.data; /* borrowed from the workspace */
    if (f->format == OZ_FORMAT_LZ4) {
        unsigned char *to = low ? scratch : out;
        int got = LZ4_decompress_safe_partial((const char *)in.data, (char *)to, (int)in.size,
                                              (int)high, (int)high);
        if (got != (int)high) return OZ_INVALID;
        if (!low) return OZ_OK;
    } else {
        status = decode_stream(f, workspace, in, scratch, part);
        if (status) return status;
    }
    memcpy(out, scratch + low, (size_t)(high - low));
    return OZ_OK;
}

/* Decode the streams of a block as far as its wanted bytes need them: to `out`, or as far as items
 * are cut into streams, stream after stream. */
static oz_status decode_streams_range(const frame *f, oz_workspace *workspace, oz_bytes in,
                                      const block_range *range, int shuffled, unsigned char *out) {
    int64_t size = (int64_t)in.size;
    const unsigned char *data = in.data;
    for (int64_t k = 0; k < range->streams; k++) {
        int64_t low = range->first, high = range->last, at = k * range->part;
        if (!shuffled) {
            low = range->from > at ? range->from - at : 0;
            high = range->to - at < range->part ? range->to - at : range->part;
        }
        if (size < 4) return OZ_INVALID;
        int64_t packed = oz_get_u32(data);
        data += 4, size -= 4;
        if (packed < 1 || packed > range->part || packed > size) return OZ_INVALID;
        if (low < high) {
            unsigned char *to = shuffled ? out + k * (high - low) : out + (at + low - range->from);
            oz_bytes stream = {data, (size_t)packed};
            oz_status status = decode_stream_range(f, workspace, stream, range, low, high, to);
            if (status) return status;
        }
        data += packed, size -= packed;
    }
    return OZ_OK;
}

/* Decode the wanted items of a block that is one stream: their first bytes, their second bytes, and
 * so on, one behind the other. */
static oz_status decode_one_stream(const frame *f, oz_workspace *workspace, oz_bytes in,
                                   const block_range *range, unsigned char *out) {
    int64_t items = range->part / f->type, count = range->last - range->first;
    block_range needed = {0, (f->type - 1) * items + range->last, 1, range->part, 0, 0};
    if (oz_buffer_reserve(&workspace->blosc_stream, (size_t)needed.to)) return OZ_NO_MEMORY;
    unsigned char *stream = workspace->blosc_stream.data; /* borrowed from the workspace */
    oz_status status = decode_streams_range(f, workspace, in, &needed, 0, stream);
    for (int64_t k = 0; k < f->type && !status; k++)
        memcpy(out + k * count, stream + k * items + range->first, (size_t)count);
    return status;
}

/* Decode the bytes `from` to `to` of a block of `length` bytes; OZ_UNSUPPORTED where they are not
 * found without the others. */
static oz_status decode_block_range(const frame *f, oz_workspace *workspace, oz_bytes in,
                                    int64_t length, int64_t from, int64_t to, unsigned char *out) {
    int64_t type = f->type, streams = count_streams(f, length);
    int bytes = f->flags & OZ_BLOSC_SHUFFLED && type > 1;
    if (f->flags & OZ_BLOSC_BIT_SHUFFLED) return OZ_UNSUPPORTED;
    if (bytes && to > length - length % type) return OZ_UNSUPPORTED; /* what is left is no item */
    if (length % streams) return OZ_INVALID;
    block_range range = {from, to, streams, length / streams, from / type, (to + type - 1) / type};
    if (!bytes) return decode_streams_range(f, workspace, in, &range, 0, out);
    /* Items that are wanted in part are decoded behind the streams. */
    int64_t size = (range.last - range.first) * type;
    oz_status status = oz_buffer_reserve(&workspace->blosc_filter, 2 * (size_t)size);
    if (status) return status;
    unsigned char *packed = workspace->blosc_filter.data; /* borrowed from the workspace */
    unsigned char *items = size == to - from ? out : packed + size;
    status = streams == type ? decode_streams_range(f, workspace, in, &range, 1, packed)
                             : decode_one_stream(f, workspace, in, &range, packed);
    if (status) return status;
    if (blosc2_unshuffle((int32_t)type, (int32_t)size, packed, items) < 0) return OZ_INVALID;
    if (items != out) memcpy(out, items + (from - range.first * type), (size_t)(to - from));
    return OZ_OK;
}

/* A block: its number, its entry in the table with the next one after it, and its wanted bytes. */
typedef struct {
    int64_t number;
    const unsigned char *entry; /* borrowed from the table */
    int64_t from, to;
} wanted_block;

static oz_status read_block(const frame *f, oz_workspace *workspace, oz_input *input,
                            const wanted_block *block, unsigned char *out) {
    int64_t i = block->number, from = block->from, to = block->to;
    const unsigned char *entry = block->entry;
    int64_t length = block_length(f, i), start = oz_get_u32(entry);
    int64_t stop = start + length + 4 * count_streams(f, length);
    const unsigned char *data; /* borrowed from the input or the workspace */
    /* Blocks are in any order, but a larger start of the next one is beyond this one's end. */
    if (i + 1 < f->count && oz_get_u32(entry + 4) > start && oz_get_u32(entry + 4) < stop)
        stop = oz_get_u32(entry + 4);
    if (stop > f->packed) stop = f->packed;
    if (start < OZ_BLOSC_HEADER + 4 * f->count || start >= stop) return OZ_INVALID;
    oz_status status = oz_input_read(input, start, stop - start, &workspace->stored, &data);
    if (status) return status;
    oz_bytes in = {data, (size_t)(stop - start)};
    if (to - from == length) return decode_block(f, workspace, in, out, length);
    status = decode_block_range(f, workspace, in, length, from, to, out);
    if (status != OZ_UNSUPPORTED) return status;
    if (oz_buffer_reserve(&workspace->blosc_block, (size_t)length)) return OZ_NO_MEMORY;
    unsigned char *whole = workspace->blosc_block.data; /* borrowed from the workspace */
    status = decode_block(f, workspace, in, whole, length);
    if (!status) memcpy(out, whole + from, (size_t)(to - from));
    return status;
}

oz_status oz_blosc1_open(oz_workspace *workspace, oz_input *input, int64_t want, oz_blosc1 *f) {
    const unsigned char *data; /* borrowed from the input or the workspace */
    int64_t size = OZ_BLOSC_HEADER + 4 * HEAD_ENTRIES;
    if (size > input->size) size = input->size;
    if (size < OZ_BLOSC_HEADER) return OZ_INVALID;
    oz_status status = oz_input_read(input, 0, size, &workspace->blosc_table, &data);
    if (!status) status = parse_header(f, data, input->size, want);
    f->table = data + OZ_BLOSC_HEADER, f->entries = (size - OZ_BLOSC_HEADER) / 4;
    return status;
}

/* Set `*table` to the entries `low` to before `end` of the table of blocks. */
static oz_status read_table(frame *f, oz_workspace *workspace, oz_input *input, int64_t low,
                            int64_t end, const unsigned char **table) {
    *table = f->table + 4 * low;
    if (end <= f->entries) return OZ_OK;
    f->entries = 0; /* the buffer has others now */
    return oz_input_read(input, OZ_BLOSC_HEADER + 4 * low, 4 * (end - low), &workspace->blosc_table,
                         table);
}

oz_status oz_blosc1_decode(oz_blosc1 *f, oz_workspace *workspace, oz_input *input, int64_t first,
                           int64_t end, unsigned char *out) {
    const unsigned char *data; /* borrowed from the input or the workspace */
    oz_status status;
    if (f->flags & OZ_BLOSC_UNCOMPRESSED) {
        status =
            oz_input_read(input, OZ_BLOSC_HEADER + first, end - first, &workspace->stored, &data);
        if (!status) memcpy(out, data, (size_t)(end - first));
        return status;
    }
    int64_t low = first / f->block, high = (end - 1) / f->block;
    status = read_table(f, workspace, input, low, high + 1 < f->count ? high + 2 : f->count, &data);
    for (int64_t i = low; i <= high && !status; i++) {
        int64_t at = i * f->block, length = block_length(f, i);
        int64_t from = at < first ? first - at : 0, to = at + length < end ? length : end - at;
        wanted_block block = {i, data + 4 * (i - low), from, to};
        status = read_block(f, workspace, input, &block, out + (at + from - first));
    }
    return status;
}
