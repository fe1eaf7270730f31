/* Writing Blosc-1 buffers: the format of c-blosc 1, which every Zarr library reads.
 *
 * A 16-byte header, a table with the start of each block, and the blocks, each one stream behind
 * its 4-byte length (the flag "do not split" is set). libblosc2's own compressor writes a longer
 * header by default, which c-blosc 1 refuses; its shuffles are used.
 */
#include "kernel.h"

#include <blosc2.h>
#include <string.h>

int LZ4_compress_fast(const char *, char *, int, int, int);
int LZ4_compress_HC(const char *, char *, int, int, int);
int ZSTD_maxCLevel(void);

/* Compresses one block; the size of the stream, or 0 where it would not get smaller. */
static size_t pack_block(const step_t *step, scratch_t *s, const unsigned char *data, size_t size,
                         unsigned char *out, size_t room) {
    int n = 0;
    if (room > size - 1) room = size - 1;
    if (step->name == BLOSC_NAME_LZ4) {
        n = LZ4_compress_fast((const char *)data, (char *)out, (int)size, (int)room,
                              10 - step->level);
    } else if (step->name == BLOSC_NAME_LZ4HC) {
        n = LZ4_compress_HC((const char *)data, (char *)out, (int)size, (int)room, step->level);
    } else if (step->name == BLOSC_NAME_SNAPPY) {
        return snappy_pack(data, size, out, room);
    } else {
        int level = step->level < 9 ? 2 * step->level - 1 : ZSTD_maxCLevel();
        return zstd_pack(s, level, 0, 1, data, size, out, room);
    }
    return n > 0 ? (size_t)n : 0;
}

size_t blosc1_encoded_block(const step_t *step, size_t size) {
    size_t unit = (size_t)step->typesize * (step->shuffle == 2 ? 8 : 1);
    size_t block = step->blocksize > 0 ? (size_t)step->blocksize : (size_t)128 << 10;
    if (step->blocksize == 0 && step->name != BLOSC_NAME_LZ4) block *= 2;
    if (block > size) block = size;
    if (block > MAX_BLOCK) block = MAX_BLOCK;
    if (block > unit) block -= block % unit;
    return block ? block : 1;
}

/* What is compressed in place of `from`, as c-blosc 1 will turn it back: a block whose number of
 * items is no multiple of 8 keeps its bits where they are. */
static const unsigned char *shuffled(int shuffle, int type, const unsigned char *from, size_t n,
                                     unsigned char *room) {
    if (shuffle == 0 || (shuffle == 2 && n / (size_t)type % 8)) return from;
    int done = shuffle == 1 ? blosc2_shuffle(type, (int32_t)n, from, room)
                            : blosc2_bitshuffle(type, (int32_t)n, from, room);
    return done < 0 ? NULL : room;
}

/* The header and the blocks, or the header alone (1) for bytes that are then stored as they are. */
int blosc1_encode_blocks(const step_t *step, scratch_t *s, blocks_t *blocks, size_t size,
                         unsigned char *out, size_t *out_size) {
    if (step->name == BLOSC_NAME_OTHER) return -1;
    int type = step->typesize > 255 ? 1 : step->typesize;
    size_t block = blosc1_encoded_block(step, size);
    size_t count = size ? (size + block - 1) / block : 0;
    int format = step->name == BLOSC_NAME_ZSTD     ? FORMAT_ZSTD
                 : step->name == BLOSC_NAME_SNAPPY ? FORMAT_SNAPPY
                                                   : FORMAT_LZ4;
    int shuffle = type > 1 || step->shuffle == 2 ? step->shuffle : 0;
    int flags = NOT_SPLIT | format << 5;
    flags |= shuffle == 1 ? SHUFFLED : shuffle == 2 ? BIT_SHUFFLED : 0;
    out[0] = 2, out[1] = 1, out[3] = (unsigned char)type;
    put32(out + 4, (uint32_t)size);
    put32(out + 8, (uint32_t)block);
    size_t at = 16 + 4 * count, limit = size + 16;
    int small = step->level > 0 && size >= 128 && at < limit;
    if (shuffle && small && buffer_reserve(&s->filter, block)) return -1;
    for (size_t i = 0; small && i < count; i++) {
        size_t n = i + 1 < count ? block : size - i * block;
        const unsigned char *from = blocks->get(blocks, i * block, n);
        if (from) from = shuffled(shuffle, type, from, n, s->filter.data);
        if (!from) return -1;
        put32(out + 16 + 4 * i, (uint32_t)at);
        if (at + 4 >= limit) {
            small = 0;
            break;
        }
        size_t got = n > 1 ? pack_block(step, s, from, n, out + at + 4, limit - at - 4) : 0;
        if (got == 0) { /* stored as it is, told by its length */
            got = n;
            if (at + 4 + got > limit) {
                small = 0;
                break;
            }
            memcpy(out + at + 4, from, n);
        }
        put32(out + at, (uint32_t)got);
        at += 4 + got;
    }
    if (!small || at >= limit) flags = (flags & ~(SHUFFLED | BIT_SHUFFLED)) | STORED;
    *out_size = flags & STORED ? limit : at;
    out[2] = (unsigned char)flags;
    put32(out + 12, (uint32_t)*out_size);
    return flags & STORED ? 1 : 0;
}

typedef struct {
    blocks_t blocks;
    const unsigned char *data;
} at_hand_t;

static const unsigned char *get_at_hand(blocks_t *blocks, size_t at, size_t size) {
    return ((at_hand_t *)blocks)->data + at;
}

int blosc1_encode(const step_t *step, scratch_t *s, const unsigned char *data, size_t size,
                  unsigned char *out, size_t *out_size) {
    at_hand_t all = {{get_at_hand}, data};
    int state = blosc1_encode_blocks(step, s, &all.blocks, size, out, out_size);
    if (state == 1) memcpy(out + 16, data, size);
    return state < 0 ? -1 : 0;
}
