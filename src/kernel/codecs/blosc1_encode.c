/* Encoding Blosc-1 buffers: the format of c-blosc 1, which every Zarr library reads.
 *
 * A 16-byte header, a table with the start of each block, and the blocks, each one stream behind
 * its 4-byte length (the flag "do not split" is set). libblosc2's own compressor writes a longer
 * header by default, which c-blosc 1 refuses; only its shuffles are used.
 */
#include "codecs/codecs.h"

#include "codecs/bundled.h"
#include "codecs/threads.h"

#include <blosc2.h>
#include <stdatomic.h>
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

/* What the threads that encode the blocks of one buffer share. */
typedef struct {
    const oz_step *step;
    oz_block_source *source; /* borrowed from the caller of oz_blosc1_encode_blocks */
    size_t total, block, count;
    unsigned char *slots; /* borrowed from a workspace: room for each encoded block */
    atomic_size_t next;   /* the next block to take */
    atomic_int failed;    /* an oz_status */
} block_encoder;

/* Write a block behind its length; set its size, 0 where it does not fit into `room`. */
static oz_status put_block(const block_encoder *encoder, oz_workspace *workspace, size_t number,
                           unsigned char *out, size_t room, size_t *size) {
    oz_block_source *source = encoder->source;
    const oz_step *step = encoder->step;
    size_t at = number * encoder->block, left = encoder->total - at;
    size_t n = left < encoder->block ? left : encoder->block;
    int shuffle = shuffle_of(step);
    oz_bytes stored = {NULL, 0};
    *size = 0;
    if (source->get_stream && source->get_stream(source, number, n, &stored)) return OZ_INVALID;
    if (stored.data) {
        if (stored.size >= room) return OZ_OK;
        memcpy(out, stored.data, stored.size);
        *size = stored.size;
        return OZ_OK;
    }
    if (shuffle && oz_buffer_reserve(&workspace->blosc_filter, encoder->block)) return OZ_NO_MEMORY;
    const unsigned char *from = source->get(source, workspace, at, n);
    if (from)
        from = shuffled(shuffle, type_of(step), (oz_bytes){from, n}, workspace->blosc_filter.data);
    if (!from) return OZ_INVALID;
    if (room <= 4) return OZ_OK;
    room -= 4;
    size_t got = n > 1 ? encode_block(step, workspace, (oz_bytes){from, n}, out + 4, room) : 0;
    if (got == 0) { /* uncompressed, which readers see by its length */
        if (n > room) return OZ_OK;
        got = n;
        memcpy(out + 4, from, n);
    }
    oz_put_u32(out, (uint32_t)got);
    *size = 4 + got;
    return OZ_OK;
}

static size_t slot_size(const block_encoder *encoder) { return encoder->block + 8; }

/* Encode blocks into their slots until there are none left. */
static void encode_slots(block_encoder *encoder, oz_workspace *workspace) {
    size_t slot = slot_size(encoder), i, size;
    while ((i = atomic_fetch_add(&encoder->next, 1)) < encoder->count) {
        unsigned char *out = encoder->slots + i * slot;
        oz_status status = put_block(encoder, workspace, i, out, slot, &size);
        if (status) atomic_store(&encoder->failed, status);
    }
}

static void *encode_on_thread(void *encoder) {
    oz_workspace *workspace = oz_workspace_take(); /* owned: given back below */
    if (!workspace) return NULL;
    encode_slots(encoder, workspace);
    oz_workspace_give(workspace);
    return NULL;
}

/* Encode all blocks with several threads. */
static oz_status encode_together(block_encoder *encoder, oz_workspace *workspace) {
    if (oz_buffer_reserve(&workspace->between, encoder->count * slot_size(encoder)))
        return OZ_NO_MEMORY;
    encoder->slots = workspace->between.data;
    oz_threads threads;
    oz_threads_start(&threads, workspace->helpers, encode_on_thread, encoder);
    encode_slots(encoder, workspace);
    oz_threads_join(&threads);
    return (oz_status)atomic_load(&encoder->failed);
}

oz_status oz_blosc1_encode_blocks(const oz_step *step, oz_workspace *workspace,
                                  oz_block_source *source, size_t total, unsigned char *out,
                                  size_t *size) {
    if (step->compressor == OZ_BLOSC_OTHER) return OZ_UNSUPPORTED;
    size_t block = oz_blosc1_choose_block(step, total);
    size_t count = total ? (total + block - 1) / block : 0;
    block_encoder encoder = {
        .step = step, .source = source, .total = total, .block = block, .count = count};
    put_header(step, total, out);
    unsigned char *table = out + OZ_BLOSC_HEADER;
    size_t at = OZ_BLOSC_HEADER + 4 * count, limit = OZ_BLOSC_HEADER + total;
    int smaller = step->level > 0 && total >= 128 && at < limit;
    oz_status status = OZ_OK;
    if (smaller && workspace->helpers && count > 1 && !source->get_stream)
        status = encode_together(&encoder, workspace);
    for (size_t i = 0; smaller && i < count && !status; i++) {
        size_t got;
        oz_put_u32(table + 4 * i, (uint32_t)at);
        if (encoder.slots) {
            const unsigned char *slot = encoder.slots + i * slot_size(&encoder);
            got = 4 + oz_get_u32(slot);
            if (got > limit - at) got = 0;
            memcpy(out + at, slot, got);
        } else {
            status = put_block(&encoder, workspace, i, out + at, limit - at, &got);
        }
        smaller = got > 0;
        at += got;
    }
    if (status) return status;
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

static const unsigned char *get_from_memory(oz_block_source *source, oz_workspace *workspace,
                                            size_t at, size_t size) {
    (void)workspace, (void)size;
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
