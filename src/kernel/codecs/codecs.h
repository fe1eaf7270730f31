/* The codecs that the kernel knows, from bytes to bytes.
 *
 * Decoders know the size of their result, `want`, and fail with OZ_INVALID if it is another one.
 * `out` is always borrowed: memory of the caller for as long as the call takes.
 */
#ifndef OZ_CODECS_H
#define OZ_CODECS_H

#include "bytes.h"
#include "codecs/input.h"

/* engine/kernel.py uses the same numbers. */
enum oz_codec { OZ_CRC32C = 1, OZ_BLOSC, OZ_ZSTD, OZ_LZ4, OZ_GZIP, OZ_ZLIB };
enum oz_blosc_compressor {
    OZ_BLOSC_LZ4,
    OZ_BLOSC_LZ4HC,
    OZ_BLOSC_ZSTD,
    OZ_BLOSC_SNAPPY,
    OZ_BLOSC_OTHER
};

/* One codec of a pipeline, with its configuration. */
typedef struct {
    int codec;
    int level;         /* of zstd, gzip, zlib; clevel of Blosc; acceleration of LZ4 */
    int compressor;    /* inside Blosc */
    int shuffle;       /* of Blosc: 0 none, 1 bytes, 2 bits */
    int typesize;      /* of Blosc */
    int checksum;      /* of zstd */
    int64_t blocksize; /* of Blosc; 0: automatic */
} oz_step;

/* crc32c.c */
uint32_t oz_crc32c(const unsigned char *data, size_t size);

/* lz4.c: a block behind its decoded size, as in numcodecs. Encoding appends nothing, but leaves 4
 * bytes of room for a checksum in `out`, as all encoders do. */
oz_status oz_lz4_decode(oz_bytes in, unsigned char *out, size_t want);
oz_status oz_lz4_encode(const oz_step *step, oz_bytes in, oz_buffer *out, size_t *size);

/* zstd.c: a frame that states its decoded size, or one that need not. Blocks after the first
 * `needed` bytes are not decoded, unless the frame has a checksum. */
oz_status oz_zstd_decode(oz_workspace *workspace, oz_bytes in, unsigned char *out, size_t want,
                         size_t needed);
oz_status oz_zstd_decode_any(oz_workspace *workspace, oz_bytes in, unsigned char *out, size_t want);
oz_status oz_zstd_encode(const oz_step *step, oz_workspace *workspace, oz_bytes in, oz_buffer *out,
                         size_t *size);
/* As a stream inside Blosc: OZ_NOT_SMALLER where it does not fit into `room` bytes. */
oz_status oz_zstd_encode_stream(int level, oz_workspace *workspace, oz_bytes in, unsigned char *out,
                                size_t room, size_t *size);
int oz_zstd_max_level(void);

/* snappy.c: raw streams. */
oz_status oz_snappy_decode(oz_bytes in, unsigned char *out, size_t want);
/* OZ_NOT_SMALLER where it does not fit into `room` bytes. */
oz_status oz_snappy_encode(oz_bytes in, unsigned char *out, size_t room, size_t *size);

/* deflate.c: gzip and zlib, by the libdeflate in a shared library. */
oz_status oz_deflate_load(const char *file); /* with the GIL */
int oz_deflate_loaded(void);
oz_status oz_deflate_decode(int codec, oz_workspace *workspace, oz_bytes in, unsigned char *out,
                            size_t want);
oz_status oz_deflate_encode(const oz_step *step, oz_workspace *workspace, oz_bytes in,
                            oz_buffer *out, size_t *size);

/* blosc1_decode.c and blosc1_encode.c: Blosc-1 buffers. The flags in their headers, and the largest
 * block that c-blosc 1 and 2 accept: */
enum {
    OZ_BLOSC_HEADER = 16, /* bytes */
    OZ_BLOSC_SHUFFLED = 0x1,
    OZ_BLOSC_UNCOMPRESSED = 0x2,
    OZ_BLOSC_BIT_SHUFFLED = 0x4,
    OZ_BLOSC_RESERVED = 0x8,
    OZ_BLOSC_NOT_SPLIT = 0x10,
    OZ_BLOSC_MAX_BLOCK = 1 << 28
};
enum { OZ_FORMAT_BLOSCLZ, OZ_FORMAT_LZ4, OZ_FORMAT_SNAPPY, OZ_FORMAT_ZLIB, OZ_FORMAT_ZSTD };

/* The header of a buffer. */
typedef struct {
    int flags, format, type;
    int64_t size, packed;       /* of the bytes inside, and of the buffer */
    int64_t block, count;       /* size of a block, and number of blocks */
    const unsigned char *table; /* borrowed from the input or the workspace: where blocks begin */
    int64_t entries;            /* of the table, the first ones */
} oz_blosc1;

/* Read and check the header of a buffer that should hold `want` bytes. */
oz_status oz_blosc1_open(oz_workspace *workspace, oz_input *input, int64_t want, oz_blosc1 *f);
/* Decode the bytes from `first` to `end`; of blocks and streams no more than that takes. No other
 * buffer is opened in between with the same workspace. */
oz_status oz_blosc1_decode(oz_blosc1 *f, oz_workspace *workspace, oz_input *input, int64_t first,
                           int64_t end, unsigned char *out);

/* Encode; `out` has room for in.size + OZ_BLOSC_HEADER bytes. */
oz_status oz_blosc1_encode(const oz_step *step, oz_workspace *workspace, oz_bytes in,
                           unsigned char *out, size_t *size);

/* Blocks that are made when they are needed. The result of `get` is borrowed until the next call
 * with the same workspace; NULL where it fails. `get_stream` sets a block, of `size` bytes, that is
 * encoded already, or leaves it empty. NULL: none is, and several threads may call `get`. */
typedef struct oz_block_source {
    const unsigned char *(*get)(struct oz_block_source *, oz_workspace *, size_t at, size_t size);
    oz_status (*get_stream)(struct oz_block_source *, size_t number, size_t size, oz_bytes *stream);
} oz_block_source;

/* Encode `total` bytes from such blocks. OZ_NOT_SMALLER: only the header is in `out`. */
oz_status oz_blosc1_encode_blocks(const oz_step *step, oz_workspace *workspace,
                                  oz_block_source *source, size_t total, unsigned char *out,
                                  size_t *size);
/* Return the size of the blocks that are made of `size` bytes. */
size_t oz_blosc1_choose_block(const oz_step *step, size_t size);
/* Return 1 where a buffer has blocks just as they would be made of `total` bytes. */
int oz_blosc1_has_such_blocks(const oz_step *step, oz_bytes buffer, size_t total);
/* Set the stream of a block, of `size` bytes, in such a buffer, with its length in front. */
oz_status oz_blosc1_get_stream(oz_bytes buffer, size_t number, size_t size, oz_bytes *stream);

#endif
