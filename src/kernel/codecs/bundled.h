/* The functions of LZ4 and Zstandard that libblosc2 contains; it does not install their headers.
 * Names and types are those of lz4.h, lz4hc.h and zstd.h. */
#ifndef OZ_BUNDLED_H
#define OZ_BUNDLED_H

#include <stddef.h>

int LZ4_compressBound(int input_size);
int LZ4_compress_fast(const char *source, char *target, int source_size, int target_capacity,
                      int acceleration);
int LZ4_compress_HC(const char *source, char *target, int source_size, int target_capacity,
                    int level);
int LZ4_decompress_safe(const char *source, char *target, int compressed_size, int target_capacity);
int LZ4_decompress_safe_partial(const char *source, char *target, int compressed_size,
                                int target_output_size, int target_capacity);

typedef struct ZSTD_CCtx_s ZSTD_CCtx;
typedef struct ZSTD_DCtx_s ZSTD_DCtx;
typedef struct {
    unsigned windowLog, chainLog, hashLog, searchLog, minMatch, targetLength;
    int strategy; /* an enum */
} ZSTD_compressionParameters;

/* Values of the enums ZSTD_ResetDirective and ZSTD_cParameter. */
enum {
    ZSTD_reset_session_and_parameters = 3,
    ZSTD_c_compressionLevel = 100,
    ZSTD_c_checksumFlag = 201,
    ZSTD_c_blockSplitterLevel = 1017, /* from 1.5.7 on; 1: does not split */
};

int ZSTD_maxCLevel(void);
unsigned ZSTD_isError(size_t code);
size_t ZSTD_compressBound(size_t size);
unsigned long long ZSTD_getFrameContentSize(const void *source, size_t size);
ZSTD_CCtx *ZSTD_createCCtx(void);
ZSTD_DCtx *ZSTD_createDCtx(void);
size_t ZSTD_freeCCtx(ZSTD_CCtx *context);
size_t ZSTD_freeDCtx(ZSTD_DCtx *context);
size_t ZSTD_sizeof_CCtx(const ZSTD_CCtx *context);
size_t ZSTD_sizeof_DCtx(const ZSTD_DCtx *context);
size_t ZSTD_CCtx_reset(ZSTD_CCtx *context, int directive);
size_t ZSTD_CCtx_setParameter(ZSTD_CCtx *context, int parameter, int value);
size_t ZSTD_CCtx_setCParams(ZSTD_CCtx *context, ZSTD_compressionParameters parameters);
ZSTD_compressionParameters ZSTD_getCParams(int level, unsigned long long estimated_size,
                                           size_t dictionary_size);
ZSTD_compressionParameters ZSTD_adjustCParams(ZSTD_compressionParameters parameters,
                                              unsigned long long size, size_t dictionary_size);
size_t ZSTD_compress2(ZSTD_CCtx *context, void *target, size_t capacity, const void *source,
                      size_t size);
size_t ZSTD_decompressBegin(ZSTD_DCtx *context);
size_t ZSTD_nextSrcSizeToDecompress(ZSTD_DCtx *context);
size_t ZSTD_decompressContinue(ZSTD_DCtx *context, void *target, size_t capacity,
                               const void *source, size_t size);
size_t ZSTD_decompressDCtx(ZSTD_DCtx *context, void *target, size_t capacity, const void *source,
                           size_t size);

#endif
