/* Encoding Blosc-1 buffers: the format of c-blosc 1, which every Zarr library reads.
 *
 * A 16-byte header, a table with the start of each block, and the blocks, each one stream behind
 * its 4-byte length (the flag "do not split" is set). libblosc2's own compressor writes a longer
 * header by default, which c-blosc 1 refuses; only its shuffles are used.
 */
#include "codecs/codecs.h"

#include "codecs/bundled.h"

#include <blosc2.h>
#include <string.h>

/* Compress one block. Return the size of the stream, or 0 where it would not be smaller. */
static size_t encode_block(const oz_step *step, oz_workspace *workspace, oz_bytes in,
                           unsigned char *out, size_t room) {
    int n = 0;
    size_t size = 0;
    if (room > in.size - 1) room = in.size - 1;
    if (step->compressor == OZ_BLOSC_LZ4) {
        n = LZ4_compress_fast((const char *)in.data, (char *)out, (int)in.size, (int)room,
                              10 - step->level);
    } else if (step->compressor == OZ_BLOSC_LZ4HC) {
        n = LZ4_compress_HC((const char *)in.data, (char *)out, (int)in.size, (int)room,
                            step->level);
    } else if (step->compressor == OZ_BLOSC_SNAPPY) {
        return oz_snappy_encode(in, out, room, &size) ? 0 : size;
    } else {
        int level = step->level < 9 ? 2 * step->level - 1 : oz_zstd_max_level();
        return oz_zstd_encode_stream(level, workspace, in, out, room, &size) ? 0 : size;
    }
    return n > 0 ? (size_t)n : 0;
}

size_t oz_blosc1_choose_block(const oz_step *step, size_t size) {
    size_t unit = (size_t)step->typesize * (step->shuffle == 2 ? 8 : 1);
    size_t block = step->blocksize > 0 ? (size_t)step->blocksize : (size_t)128 << 10;
    if (step->blocksize == 0 && step->compressor != OZ_BLOSC_LZ4) block *= 2;
    if (block > size) block = size;
    if (block > OZ_BLOSC_MAX_BLOCK) block = OZ_BLOSC_MAX_BLOCK;
    if (block > unit) block -= block % unit;
    return block ? block : 1;
}

/* Return what is compressed instead of `in`, borrowed from it or from `filter`, so that c-blosc 1
 * will reverse it: a block whose number of items is no multiple of 8 is not bit-shuffled. */
static const unsigned char *shuffled(int shuffle, int type, oz_bytes in, unsigned char *filter) {
    if (shuffle == 0 || (shuffle == 2 && in.size / (size_t)type % 8)) return in.data;
    int done = shuffle == 1 ? blosc2_shuffle(type, (int32_t)in.size, in.data, filter)
                            : blosc2_bitshuffle(type, (int32_t)in.size, in.data, filter);
    return done < 0 ? NULL : filter;
}

static int format_of(int compressor) {
    return compressor == OZ_BLOSC_ZSTD     ? OZ_FORMAT_ZSTD
           : compressor == OZ_BLOSC_SNAPPY ? OZ_FORMAT_SNAPPY
                                           : OZ_FORMAT_LZ4;
}

static int type_of(const oz_step *step) { return step->typesize > 255 ? 1 : step->typesize; }

static int shuffle_of(const oz_step *step) {
    return type_of(step) > 1 || step->shuffle == 2 ? step->shuffle : 0;
}

#define HEADER_START 12 /* bytes; the size of the buffer follows */

/* Write the header of a compressed buffer up to its own size. */
static void put_header(const oz_step *step, size_t total, unsigned char *out) {
    int shuffle = shuffle_of(step), flags = OZ_BLOSC_NOT_SPLIT | format_of(step->compressor) << 5;
    flags |= shuffle == 1 ? OZ_BLOSC_SHUFFLED : shuffle == 2 ? OZ_BLOSC_BIT_SHUFFLED : 0;
    out[0] = 2, out[1] = 1, out[2] = (unsigned char)flags, out[3] = (unsigned char)type_of(step);
    oz_put_u32(out + 4, (uint32_t)total);
    oz_put_u32(out + 8, (uint32_t)oz_blosc1_choose_block(step, total));
}

int oz_blosc1_has_such_blocks(const oz_step *step, oz_bytes buffer, size_t total) {
    unsigned char header[HEADER_START];
    size_t block = oz_blosc1_choose_block(step, total), count = (total + block - 1) / block;
    if (buffer.size < OZ_BLOSC_HEADER || (buffer.size - OZ_BLOSC_HEADER) / 4 < count) return 0;
    put_header(step, total, header);
    return memcmp(header, buffer.data, sizeof header) == 0 &&
           oz_get_u32(buffer.data + HEADER_START) == buffer.size;
}

oz_status oz_blosc1_get_stream(oz_bytes buffer, size_t number, size_t size, oz_bytes *stream) {
    size_t start = oz_get_u32(buffer.data + OZ_BLOSC_HEADER + 4 * number);
    if (start < OZ_BLOSC_HEADER || start > buffer.size || buffer.size - start < 4)
        return OZ_INVALID;
    size_t packed = oz_get_u32(buffer.data + start);
    if (packed < 1 || packed > size || packed > buffer.size - start - 4) return OZ_INVALID;
    *stream = (oz_bytes){buffer.data + start, packed + 4};
    return OZ_OK;
}

oz_status oz_blosc1_encode_blocks(const oz_step *step, oz_workspace *workspace,
                                  oz_block_source *source, size_t total, unsigned char *out,
                                  size_t *size) {
    if (step->compressor == OZ_BLOSC_OTHER) return OZ_UNSUPPORTED;
    int type = type_of(step), shuffle = shuffle_of(step);
    size_t block = oz_blosc1_choose_block(step, total);
    size_t count = total ? (total + block - 1) / block : 0;
    put_header(step, total, out);
    unsigned char *table = out + OZ_BLOSC_HEADER;
    size_t at = OZ_BLOSC_HEADER + 4 * count, limit = OZ_BLOSC_HEADER + total;
    int smaller = step->level > 0 && total >= 128 && at < limit;
    if (shuffle && smaller && oz_buffer_reserve(&workspace->blosc_filter, block))
        return OZ_NO_MEMORY;
    for (size_t i = 0; smaller && i < count; i++) {
        size_t n = i + 1 < count ? block : total - i * block;
        oz_bytes stored = {NULL, 0};
        if (source->get_stream && source->get_stream(source, i, n, &stored)) return OZ_INVALID;
        if (stored.data && stored.size < limit - at) {
            oz_put_u32(table + 4 * i, (uint32_t)at);
            memcpy(out + at, stored.data, stored.size);
            at += stored.size;
            continue;
        }
        if (stored.data) {
            smaller = 0;
            break;
        }
        const unsigned char *from = source->get(source, i * block, n);
        if (from) from = shuffled(shuffle, type, (oz_bytes){from, n}, workspace->blosc_filter.data);
        if (!from) return OZ_INVALID;
        oz_put_u32(table + 4 * i, (uint32_t)at);
        if (at + 4 >= limit) {
            smaller = 0;
            break;
        }
        unsigned char *stream = out + at + 4;
        size_t room = limit - at - 4;
        size_t got = n > 1 ? encode_block(step, workspace, (oz_bytes){from, n}, stream, room) : 0;
        if (got == 0) { /* uncompressed, which readers see by its length */
            got = n;
            if (got > room) {
                smaller = 0;
                break;
            }
            memcpy(stream, from, n);
        }
        oz_put_u32(out + at, (uint32_t)got);
        at += 4 + got;
    }
    smaller = smaller && at < limit;
    if (!smaller) {
        out[2] &= (unsigned char)~(OZ_BLOSC_SHUFFLED | OZ_BLOSC_BIT_SHUFFLED);
        out[2] |= OZ_BLOSC_UNCOMPRESSED;
    }
    *size = smaller ? at : limit;
    oz_put_u32(out + HEADER_START, (uint32_t)*size);
    return smaller ? OZ_OK : OZ_NOT_SMALLER;
}

/* Blocks of bytes that are all in memory. */
typedef struct {
    oz_block_source source;
    const unsigned char *data; /* borrowed from the caller of oz_blosc1_encode */
} memory_blocks;

static const unsigned char *get_from_memory(oz_block_source *source, size_t at, size_t size) {
    (void)size;
    return ((memory_blocks *)source)->data + at;
}

oz_status oz_blosc1_encode(const oz_step *step, oz_workspace *workspace, oz_bytes in,
                           unsigned char *out, size_t *size) {
    memory_blocks blocks = {{get_from_memory, NULL}, in.data};
    oz_status status = oz_blosc1_encode_blocks(step, workspace, &blocks.source, in.size, out, size);
    if (status != OZ_NOT_SMALLER) return status;
    memcpy(out + OZ_BLOSC_HEADER, in.data, in.size);
    return OZ_OK;
}
