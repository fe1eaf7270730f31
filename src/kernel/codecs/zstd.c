#include "codecs/codecs.h"

#include "codecs/bundled.h"

enum { DESCRIPTOR = 4, HAS_CHECKSUM = 4 }; /* the byte of a frame with flags, and one of them */

static void free_decoder(void *context) { ZSTD_freeDCtx(context); }
static void free_encoder(void *context) { ZSTD_freeCCtx(context); }
static size_t size_of_decoder(const void *context) { return ZSTD_sizeof_DCtx(context); }
static size_t size_of_encoder(const void *context) { return ZSTD_sizeof_CCtx(context); }

/* Return the workspace's context, borrowed, or NULL without memory. */
static ZSTD_DCtx *decoder_of(oz_workspace *workspace) {
    oz_context *context = &workspace->contexts[OZ_ZSTD_DECODER];
    if (!context->data) *context = (oz_context){ZSTD_createDCtx(), free_decoder, size_of_decoder};
    return context->data;
}

static ZSTD_CCtx *encoder_of(oz_workspace *workspace) {
    oz_context *context = &workspace->contexts[OZ_ZSTD_ENCODER];
    if (!context->data) *context = (oz_context){ZSTD_createCCtx(), free_encoder, size_of_encoder};
    return context->data;
}

/* Decode one block after the other until `needed` bytes are there. */
static oz_status decode_blocks(ZSTD_DCtx *decoder, oz_bytes in, unsigned char *out, size_t want,
                               size_t needed) {
    if (!decoder) return OZ_NO_MEMORY;
    if (ZSTD_isError(ZSTD_decompressBegin(decoder))) return OZ_UNSUPPORTED;
    for (size_t done = 0, next; done < needed; in.data += next, in.size -= next) {
        next = ZSTD_nextSrcSizeToDecompress(decoder); /* of the header of a block, or the block */
        if (!next || next > in.size) return OZ_INVALID;
        size_t got = ZSTD_decompressContinue(decoder, out + done, want - done, in.data, next);
        if (ZSTD_isError(got)) return OZ_INVALID;
        done += got;
    }
    return OZ_OK;
}

oz_status oz_zstd_decode(oz_workspace *workspace, oz_bytes in, unsigned char *out, size_t want,
                         size_t needed) {
    unsigned long long stated = ZSTD_getFrameContentSize(in.data, in.size);
    if (stated != want) return OZ_INVALID; /* also where a frame states no size */
    int checksum = in.size > DESCRIPTOR && in.data[DESCRIPTOR] & HAS_CHECKSUM;
    if (needed >= want || checksum) return oz_zstd_decode_any(workspace, in, out, want);
    return decode_blocks(decoder_of(workspace), in, out, want, needed);
}

oz_status oz_zstd_decode_any(oz_workspace *workspace, oz_bytes in, unsigned char *out,
                             size_t want) {
    ZSTD_DCtx *decoder = decoder_of(workspace);
    if (!decoder) return OZ_NO_MEMORY;
    return ZSTD_decompressDCtx(decoder, out, want, in.data, in.size) == want ? OZ_OK : OZ_INVALID;
}

/* From 1.5.7 on, zstd by default splits large inputs before it compresses them: 10 % slower to
 * write and 25 % slower to read for 0.1 % fewer bytes of the benchmarks' data. So that is switched
 * off. */
static oz_status prepare(ZSTD_CCtx *encoder, int level, int checksum) {
    if (!encoder) return OZ_NO_MEMORY;
    if (ZSTD_isError(ZSTD_CCtx_reset(encoder, ZSTD_reset_session_and_parameters)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(encoder, ZSTD_c_compressionLevel, level)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(encoder, ZSTD_c_checksumFlag, checksum)))
        return OZ_UNSUPPORTED;
    ZSTD_CCtx_setParameter(encoder, ZSTD_c_blockSplitterLevel, 1); /* fails in older versions */
    return OZ_OK;
}

oz_status oz_zstd_encode(const oz_step *step, oz_workspace *workspace, oz_bytes in, oz_buffer *out,
                         size_t *size) {
    ZSTD_CCtx *encoder = encoder_of(workspace);
    size_t room = ZSTD_compressBound(in.size);
    oz_status status = oz_buffer_reserve(out, room + 4);
    if (!status) status = prepare(encoder, step->level, step->checksum);
    if (status) return status;
    *size = ZSTD_compress2(encoder, out->data, room, in.data, in.size);
    return ZSTD_isError(*size) ? OZ_UNSUPPORTED : OZ_OK;
}

/* For small inputs zstd chooses other parameters at the same level, at level 9 much slower ones.
 * Blocks of Blosc get those of large inputs, cut to their size. */
oz_status oz_zstd_encode_stream(int level, oz_workspace *workspace, oz_bytes in, unsigned char *out,
                                size_t room, size_t *size) {
    ZSTD_CCtx *encoder = encoder_of(workspace);
    oz_status status = prepare(encoder, level, 0);
    if (status) return status;
    ZSTD_compressionParameters chosen =
        ZSTD_adjustCParams(ZSTD_getCParams(level, 0, 0), in.size, 0);
    if (ZSTD_isError(ZSTD_CCtx_setCParams(encoder, chosen))) return OZ_UNSUPPORTED;
    *size = ZSTD_compress2(encoder, out, room, in.data, in.size);
    return ZSTD_isError(*size) ? OZ_NOT_SMALLER : OZ_OK;
}

int oz_zstd_max_level(void) { return ZSTD_maxCLevel(); }
