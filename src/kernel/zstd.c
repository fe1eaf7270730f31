/* zstd as libblosc2 carries it, which does not bring the headers. */
#include "kernel.h"

typedef struct {
    unsigned window, chain, hash, search, match, target;
    int strategy;
} parameters_t;

size_t ZSTD_decompressDCtx(void *, void *, size_t, const void *, size_t);
size_t ZSTD_compress2(void *, void *, size_t, const void *, size_t);
size_t ZSTD_CCtx_reset(void *, int);
size_t ZSTD_CCtx_setParameter(void *, int, int);
size_t ZSTD_CCtx_setCParams(void *, parameters_t);
parameters_t ZSTD_getCParams(int, unsigned long long, size_t);
parameters_t ZSTD_adjustCParams(parameters_t, unsigned long long, size_t);
size_t ZSTD_compressBound(size_t);
unsigned ZSTD_isError(size_t);
unsigned long long ZSTD_getFrameContentSize(const void *, size_t);
void *ZSTD_createDCtx(void);
void *ZSTD_createCCtx(void);

enum { RESET_ALL = 3, LEVEL = 100, CHECKSUM = 201, SPLITTER = 1017, NO_SPLITTER = 1 };

int zstd_unpack(scratch_t *s, const unsigned char *data, size_t size, unsigned char *out,
                size_t want) {
    unsigned long long stated = ZSTD_getFrameContentSize(data, size);
    if (stated != want) return -1; /* also frames that state no size */
    return zstd_unpack_stream(s, data, size, out, want);
}

int zstd_unpack_stream(scratch_t *s, const unsigned char *data, size_t size, unsigned char *out,
                       size_t want) {
    if (!s->zstd_d && !(s->zstd_d = ZSTD_createDCtx())) return -1;
    return ZSTD_decompressDCtx(s->zstd_d, out, want, data, size) == want ? 0 : -1;
}

size_t zstd_bound(size_t size) {
    return ZSTD_compressBound(size);
}

/* From 1.5.7 on zstd splits large inputs by itself before it compresses them: 10 % slower to write
 * and 25 % slower to read for 0.1 % fewer bytes of the data in the benchmarks, so that is off.
 * For small inputs its tables have other parameters at the same level, at level 9 much slower
 * ones; `as_large` takes those of large inputs, cut to the size. */
size_t zstd_pack(scratch_t *s, int level, int checksum, int as_large, const unsigned char *data,
                 size_t size, unsigned char *out, size_t room) {
    if (!s->zstd_c && !(s->zstd_c = ZSTD_createCCtx())) return 0;
    if (ZSTD_isError(ZSTD_CCtx_reset(s->zstd_c, RESET_ALL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(s->zstd_c, LEVEL, level)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(s->zstd_c, CHECKSUM, checksum)))
        return 0;
    ZSTD_CCtx_setParameter(s->zstd_c, SPLITTER, NO_SPLITTER); /* refused by older ones */
    if (as_large) {
        parameters_t chosen = ZSTD_adjustCParams(ZSTD_getCParams(level, 0, 0), size, 0);
        if (ZSTD_isError(ZSTD_CCtx_setCParams(s->zstd_c, chosen))) return 0;
    }
    size_t got = ZSTD_compress2(s->zstd_c, out, room, data, size);
    return ZSTD_isError(got) ? 0 : got;
}
