/* The compiled kernel: reads and writes batches of chunks without the GIL.
 *
 * Nothing here trusts the data: every size, offset and count is checked before it is used. What
 * the kernel cannot do, or finds wrong, it reports by row; the reference engine then does that row
 * again and raises the error, so that both engines say the same.
 */
#ifndef OMNIZARR_KERNEL_H
#define OMNIZARR_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define MAX_AXES 32
#define MAX_STEPS 4
#define MAX_ITEM 1024

enum step_kind { STEP_CRC32C = 1, STEP_BLOSC, STEP_ZSTD, STEP_LZ4, STEP_GZIP, STEP_ZLIB };
enum blosc_name {
    BLOSC_NAME_LZ4,
    BLOSC_NAME_LZ4HC,
    BLOSC_NAME_ZSTD,
    BLOSC_NAME_SNAPPY,
    BLOSC_NAME_OTHER
};

typedef struct {
    int kind;
    int level;     /* of zstd, gzip, zlib; blosc clevel; lz4 acceleration */
    int name;      /* blosc: the compressor inside */
    int shuffle;   /* blosc: 0 none, 1 bytes, 2 bits */
    int typesize;  /* blosc */
    int checksum;  /* zstd */
    int64_t blocksize; /* blosc; 0: automatic */
} step_t;

typedef struct chain {
    int ndim;
    int64_t shape[MAX_AXES]; /* of a chunk, in the array's axes */
    int64_t perm[MAX_AXES];  /* stored axis i is the array's axis perm[i] */
    int64_t itemsize;
    int swap; /* size of the units whose bytes are swapped, or 0 */
    int nsteps;
    step_t steps[MAX_STEPS];
    unsigned char fill[MAX_ITEM];
    int keep_empty;   /* store chunks that hold nothing but the fill value */
    int64_t nbytes;   /* of a decoded chunk */
    int64_t strides[MAX_AXES]; /* of a decoded chunk, in the array's axes */
    struct chain *inner; /* of a shard, or NULL */
    int64_t counts[MAX_AXES];  /* of a shard: inner chunks along each axis */
    int64_t inner_count;
    int index_crc, index_swap, index_at_end;
} chain_t;

/* Buffers of one thread, reused from chunk to chunk. */
typedef struct {
    unsigned char *data;
    size_t size;
} buffer_t;

enum { BUFFERS = 9 };

typedef struct {
    union {
        struct {
            buffer_t raw;   /* as stored, or encoded */
            buffer_t work;  /* decoded */
            buffer_t extra; /* between two steps */
            buffer_t out;   /* encoded */
            buffer_t box;   /* around single elements */
            buffer_t table, block, filter, frame; /* of Blosc */
        };
        buffer_t buffers[BUFFERS];
    };
    long long bytes; /* of all that, while nobody uses it */
    void *blosc, *zstd_d, *zstd_c, *deflate_d, *deflate_c;
    int deflate_level; /* of deflate_c */
} scratch_t;

/* The old content is lost where the buffer has to grow. */
int buffer_reserve(buffer_t *b, size_t size);
/* scratch.c: one for a thread, or NULL; and back. */
scratch_t *scratch_take(void);
void scratch_give(scratch_t *s);

/* Where encoded bytes are: an open file, or memory (file -1). */
typedef struct {
    int file;
    const unsigned char *data;
    int64_t size;
    uint64_t identity; /* of a file: other where it was replaced or changed */
} source_t;

/* rows.c: bytes of a file; part of a source, in `buffer` where it has to be read. */
int read_exactly(int file, unsigned char *to, size_t size, int64_t from);
int fetch(source_t *source, int64_t from, int64_t size, buffer_t *buffer,
          const unsigned char **data);

static inline uint32_t get32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void put32(unsigned char *p, uint32_t v) {
    p[0] = (unsigned char)v, p[1] = (unsigned char)(v >> 8);
    p[2] = (unsigned char)(v >> 16), p[3] = (unsigned char)(v >> 24);
}

/* crc32c.c */
uint32_t crc32c(const unsigned char *data, size_t size);

/* codecs.c: 0 on success, else not. */
int decode_steps(const chain_t *c, scratch_t *s, const unsigned char *data, size_t size,
                 unsigned char *target, const unsigned char **result);
/* Whether single blocks can be decoded, and the checksums that then come after Blosc. */
int blosc_only(const chain_t *c);
int check_sums(const chain_t *c, const unsigned char *data, size_t *size);
/* Encodes `n` bytes from the step number `first` on; the result stays in the scratch or is `data`
 * itself. */
int encode_steps(const chain_t *c, scratch_t *s, int first, const unsigned char *data, size_t n,
                 const unsigned char **result, size_t *size);
void swap_bytes(unsigned char *data, int64_t size, int unit);

/* blosc1_decode.c: of a Blosc-1 buffer that holds `want` bytes, those from `first` to `end`. */
int blosc1_decode(scratch_t *s, source_t *source, int64_t want, int64_t first, int64_t end,
                  unsigned char *out);
/* The size of its blocks as its header states it, or 0. */
int64_t blosc1_block(scratch_t *s, source_t *source);

/* blosc1_encode.c: a Blosc-1 buffer as c-blosc 1 reads it. `out` has room for size + 16 bytes. */
int blosc1_encode(const step_t *step, scratch_t *s, const unsigned char *data, size_t size,
                  unsigned char *out, size_t *out_size);
/* The same from blocks that are made one after the other; 1 where they do not get smaller: only the
 * header is there then. */
typedef struct blocks {
    const unsigned char *(*get)(struct blocks *, size_t at, size_t size);
} blocks_t;
int blosc1_encode_blocks(const step_t *step, scratch_t *s, blocks_t *blocks, size_t size,
                         unsigned char *out, size_t *out_size);
size_t blosc1_encoded_block(const step_t *step, size_t size);
/* What both share: flags in a header, and the largest block that c-blosc 1 and 2 take. */
enum { SHUFFLED = 0x1, STORED = 0x2, BIT_SHUFFLED = 0x4, FUTURE = 0x8, NOT_SPLIT = 0x10 };
enum { FORMAT_BLOSCLZ, FORMAT_LZ4, FORMAT_SNAPPY, FORMAT_ZLIB, FORMAT_ZSTD };
#define MAX_BLOCK (1 << 28)

/* zstd.c: a frame that states its size, or one that need not; 0 on success. */
int zstd_unpack(scratch_t *s, const unsigned char *data, size_t size, unsigned char *out,
                size_t want);
int zstd_unpack_stream(scratch_t *s, const unsigned char *data, size_t size, unsigned char *out,
                       size_t want);
size_t zstd_bound(size_t size);
/* The size of the frame, or 0. */
size_t zstd_pack(scratch_t *s, int level, int checksum, int as_large, const unsigned char *data,
                 size_t size, unsigned char *out, size_t room);

/* snappy.c: raw streams; 0 on success, and the size of what was packed, or 0. */
int snappy_unpack(const unsigned char *data, size_t size, unsigned char *out, size_t want);
size_t snappy_pack(const unsigned char *data, size_t size, unsigned char *out, size_t room);

/* deflate.c: gzip and zlib by the libdeflate in a file; NULL as file: whether there is one. */
int deflate_load(const char *file);
int deflate_unpack(int kind, scratch_t *s, const unsigned char *data, size_t size,
                   unsigned char *out, size_t want);
int deflate_pack(const step_t *step, scratch_t *s, const unsigned char *data, size_t size,
                 buffer_t *to, size_t *got);
void deflate_free(scratch_t *s);

/* copy.c */
void copy_box(int ndim, const int64_t *count, int64_t itemsize, const unsigned char *source,
              const int64_t *source_strides, unsigned char *target,
              const int64_t *target_strides);
/* Of a number of whole items, one at least. */
int is_fill(const chain_t *c, const unsigned char *data, int64_t size);
void put_fill(const chain_t *c, unsigned char *data);

#endif
