/* Reading Blosc-1 buffers, block by block, exactly as c-blosc 1 does.
 *
 * libblosc2 reads them too, but not the same way: it splits blocks by another rule, forgets the
 * last bytes of a bit-shuffled block that is no multiple of the item size, takes empty streams for
 * zeros, and its getitem mixes up a range that is as long as a block without beginning at one.
 * So only its shuffles and compressors are used here. What c-blosc 1 would not have written is
 * declined, also where it would read it.
 */
#include "kernel.h"

#include <blosc2.h>
#include <string.h>

int LZ4_decompress_safe(const char *, char *, int, int);

#define HEADER 16
/* blosclz adds up lengths in an int, which longer streams could make overflow. */
#define MAX_BLOSCLZ (1 << 22)

typedef struct {
    int flags, format, type;
    int64_t size, packed;  /* of the bytes inside, and of the buffer */
    int64_t block, count;  /* size of a block, and how many there are */
} frame_t;

static int open_frame(frame_t *f, const unsigned char *head, int64_t packed, int64_t size) {
    f->flags = head[2], f->format = head[2] >> 5, f->type = head[3];
    f->size = size, f->packed = packed, f->block = get32(head + 8);
    if (head[0] != 2 || head[1] != 1 || f->type == 0 || f->flags & FUTURE) return -1;
    if (f->flags & SHUFFLED && f->flags & BIT_SHUFFLED) return -1; /* a header of Blosc 2 */
    if (f->format > FORMAT_ZSTD) return -1;
    if (size < 1 || size > INT32_MAX || get32(head + 4) != size || get32(head + 12) != packed)
        return -1;
    if (f->block < 1 || f->block > size || f->block > MAX_BLOCK) return -1;
    f->count = (size + f->block - 1) / f->block;
    if (f->flags & STORED) return packed == size + HEADER ? 0 : -1;
    return HEADER + 4 * f->count <= packed ? 0 : -1;
}

static int64_t block_length(const frame_t *f, int64_t i) {
    return i + 1 < f->count ? f->block : f->size - i * f->block;
}

/* How many streams a block has: one for every byte of an item, or one. */
static int64_t streams_of(const frame_t *f, int64_t length) {
    int split = !(f->flags & NOT_SPLIT) && f->type <= 16 && f->block / f->type >= 128;
    return split && length == f->block ? f->type : 1;
}

/* Other compressors by way of libblosc2: the stream as a buffer of one block. */
static int unpack_other(const frame_t *f, scratch_t *s, const unsigned char *data, size_t size,
                        unsigned char *out, size_t want) {
    size_t total = HEADER + 8 + size;
    if (f->format == FORMAT_BLOSCLZ && size > MAX_BLOSCLZ) return -1;
    if (buffer_reserve(&s->frame, total)) return -1;
    unsigned char *p = s->frame.data;
    p[0] = 2, p[1] = 1, p[2] = (unsigned char)(NOT_SPLIT | f->format << 5), p[3] = 1;
    put32(p + 4, (uint32_t)want), put32(p + 8, (uint32_t)want), put32(p + 12, (uint32_t)total);
    put32(p + HEADER, HEADER + 4), put32(p + HEADER + 4, (uint32_t)size);
    memcpy(p + HEADER + 8, data, size);
    if (!s->blosc) {
        blosc2_dparams params = BLOSC2_DPARAMS_DEFAULTS;
        params.nthreads = 1;
        if (!(s->blosc = blosc2_create_dctx(params))) return -1;
    }
    int got = blosc2_decompress_ctx(s->blosc, p, (int32_t)total, out, (int32_t)want);
    return got == (int)want ? 0 : -1;
}

static int unpack_stream(const frame_t *f, scratch_t *s, const unsigned char *data, size_t size,
                         unsigned char *out, size_t want) {
    if (f->format == FORMAT_LZ4)
        return LZ4_decompress_safe((const char *)data, (char *)out, (int)size, (int)want) ==
                       (int)want
                   ? 0
                   : -1;
    if (f->format == FORMAT_ZSTD) return zstd_unpack_stream(s, data, size, out, want);
    if (f->format == FORMAT_SNAPPY) return snappy_unpack(data, size, out, want);
    return unpack_other(f, s, data, size, out, want);
}

/* One block of `length` bytes, whose streams are in the `size` bytes at `data`. */
static int unpack_block(const frame_t *f, scratch_t *s, const unsigned char *data, int64_t size,
                        unsigned char *out, int64_t length) {
    int64_t streams = streams_of(f, length), part = length / streams;
    int bytes = f->flags & SHUFFLED && f->type > 1;
    int bits = f->flags & BIT_SHUFFLED && length >= f->type;
    if (length % streams) return -1;
    if ((bytes || bits) && buffer_reserve(&s->filter, (size_t)length)) return -1;
    unsigned char *to = bytes || bits ? s->filter.data : out;
    for (int64_t k = 0; k < streams; k++, to += part) {
        if (size < 4) return -1;
        int64_t packed = get32(data);
        data += 4, size -= 4;
        if (packed < 1 || packed > part || packed > size) return -1;
        if (packed == part)
            memcpy(to, data, (size_t)part);
        else if (unpack_stream(f, s, data, (size_t)packed, to, (size_t)part))
            return -1;
        data += packed, size -= packed;
    }
    int32_t type = f->type, n = (int32_t)length;
    if (bytes) return blosc2_unshuffle(type, n, s->filter.data, out) < 0 ? -1 : 0;
    if (!bits) return 0;
    if (n / type % 8 == 0) return blosc2_bitunshuffle(type, n, s->filter.data, out) < 0 ? -1 : 0;
    memcpy(out, s->filter.data, (size_t)n); /* bits are shuffled in eights only */
    return 0;
}

/* Fetches and unpacks block `i`; `entry` is its place in the table. */
static int read_block(const frame_t *f, scratch_t *s, source_t *source, int64_t i,
                      const unsigned char *entry, unsigned char *out) {
    int64_t length = block_length(f, i), start = get32(entry);
    int64_t stop = start + length + 4 * streams_of(f, length);
    const unsigned char *data;
    /* Blocks stand in any order, but a larger start that follows is beyond this one's end. */
    if (i + 1 < f->count && get32(entry + 4) > start && get32(entry + 4) < stop)
        stop = get32(entry + 4);
    if (stop > f->packed) stop = f->packed;
    if (start < HEADER + 4 * f->count || start >= stop) return -1;
    if (fetch(source, start, stop - start, &s->raw, &data)) return -1;
    return unpack_block(f, s, data, stop - start, out, length);
}

int64_t blosc1_block(scratch_t *s, source_t *source) {
    const unsigned char *data;
    return fetch(source, 0, HEADER, &s->table, &data) ? 0 : get32(data + 8);
}

int blosc1_decode(scratch_t *s, source_t *source, int64_t want, int64_t first, int64_t end,
                  unsigned char *out) {
    const unsigned char *data;
    frame_t f;
    if (fetch(source, 0, HEADER, &s->table, &data)) return -1;
    if (open_frame(&f, data, source->size, want)) return -1;
    if (f.flags & STORED) {
        if (fetch(source, HEADER + first, end - first, &s->raw, &data)) return -1;
        memcpy(out, data, (size_t)(end - first));
        return 0;
    }
    int64_t low = first / f.block, high = (end - 1) / f.block;
    int64_t entries = (high + 1 < f.count ? high + 2 : f.count) - low;
    if (fetch(source, HEADER + 4 * low, 4 * entries, &s->table, &data)) return -1;
    for (int64_t i = low; i <= high; i++) {
        int64_t at = i * f.block, length = block_length(&f, i);
        int64_t from = at < first ? first : at, to = at + length < end ? at + length : end;
        int direct = to - from == length;
        if (!direct && buffer_reserve(&s->block, (size_t)length)) return -1;
        unsigned char *target = direct ? out + (at - first) : s->block.data;
        if (read_block(&f, s, source, i, data + 4 * (i - low), target)) return -1;
        if (!direct) memcpy(out + (from - first), target + (from - at), (size_t)(to - from));
    }
    return 0;
}
