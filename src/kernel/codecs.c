/* The codecs that the kernel knows, from bytes to bytes. */
#include "kernel.h"

#include <string.h>

/* libblosc2 carries lz4, but not its header. */
int LZ4_decompress_safe(const char *, char *, int, int);
int LZ4_compress_fast(const char *, char *, int, int, int);
int LZ4_compressBound(int);

void swap_bytes(unsigned char *data, int64_t size, int unit) {
    for (unsigned char *p = data, *end = data + size; p + unit <= end; p += unit)
        for (int i = 0; i < unit / 2; i++) {
            unsigned char t = p[i];
            p[i] = p[unit - 1 - i];
            p[unit - 1 - i] = t;
        }
}

static int unpack_blosc(scratch_t *s, const unsigned char *data, size_t size, unsigned char *out,
                        size_t want) {
    source_t source = {.file = -1, .data = data, .size = (int64_t)size};
    return blosc1_decode(s, &source, (int64_t)want, 0, (int64_t)want, out);
}

static int unpack_lz4(const unsigned char *data, size_t size, unsigned char *out, size_t want) {
    if (size < 5 || size > INT32_MAX || want > INT32_MAX || get32(data) != want) return -1;
    int got = LZ4_decompress_safe((const char *)data + 4, (char *)out, (int)size - 4, (int)want);
    return got == (int)want ? 0 : -1;
}

static int unpack(int kind, scratch_t *s, const unsigned char *data, size_t size,
                  unsigned char *out, size_t want) {
    switch (kind) {
    case STEP_BLOSC: return unpack_blosc(s, data, size, out, want);
    case STEP_ZSTD: return zstd_unpack(s, data, size, out, want);
    case STEP_LZ4: return unpack_lz4(data, size, out, want);
    default: return deflate_unpack(kind, s, data, size, out, want);
    }
}

int blosc_only(const chain_t *c) {
    if (c->nsteps == 0 || c->steps[0].kind != STEP_BLOSC) return 0;
    for (int i = 1; i < c->nsteps; i++)
        if (c->steps[i].kind != STEP_CRC32C) return 0;
    return 1;
}

int check_sums(const chain_t *c, const unsigned char *data, size_t *size) {
    for (int i = c->nsteps - 1; i > 0; i--) {
        if (*size < 4 || crc32c(data, *size - 4) != get32(data + *size - 4)) return -1;
        *size -= 4;
    }
    return 0;
}

int decode_steps(const chain_t *c, scratch_t *s, const unsigned char *data, size_t size,
                 unsigned char *target, const unsigned char **result) {
    /* At most one step compresses (the module checks that), so what it must give is known:
     * the decoded bytes, and a checksum for each such step before it. */
    for (int i = c->nsteps - 1; i >= 0; i--) {
        const step_t *step = &c->steps[i];
        if (step->kind == STEP_CRC32C) {
            if (size < 4 || crc32c(data, size - 4) != get32(data + size - 4)) return -1;
            size -= 4;
            continue;
        }
        size_t want = (size_t)c->nbytes + 4 * (size_t)i;
        unsigned char *out = i == 0 ? target : NULL;
        if (!out) {
            if (buffer_reserve(&s->extra, want ? want : 1)) return -1;
            out = s->extra.data;
        }
        if (unpack(step->kind, s, data, size, out, want)) return -1;
        data = out;
        size = want;
    }
    if (size != (size_t)c->nbytes) return -1;
    *result = data;
    return 0;
}

static int pack(const step_t *step, scratch_t *s, const unsigned char *data, size_t size,
                buffer_t *to, size_t *got) {
    if (step->kind == STEP_BLOSC) {
        if (size > INT32_MAX - 16 || buffer_reserve(to, size + 16 + 4)) return -1;
        return blosc1_encode(step, s, data, size, to->data, got);
    }
    if (step->kind == STEP_ZSTD) {
        size_t room = zstd_bound(size);
        if (buffer_reserve(to, room + 4)) return -1;
        *got = zstd_pack(s, step->level, step->checksum, 0, data, size, to->data, room);
        return *got ? 0 : -1;
    }
    if (step->kind != STEP_LZ4) return deflate_pack(step, s, data, size, to, got);
    if (size > 0x7e000000) return -1;
    int room = LZ4_compressBound((int)size);
    if (buffer_reserve(to, (size_t)room + 8)) return -1;
    put32(to->data, (uint32_t)size);
    int n = LZ4_compress_fast((const char *)data, (char *)to->data + 4, (int)size, room,
                              step->level);
    *got = (size_t)n + 4;
    return n > 0 ? 0 : -1;
}

int encode_steps(const chain_t *c, scratch_t *s, int first, const unsigned char *data, size_t n,
                 const unsigned char **result, size_t *size) {
    const unsigned char *now = data;
    for (int i = first; i < c->nsteps; i++) {
        const step_t *step = &c->steps[i];
        if (step->kind != STEP_CRC32C) {
            size_t got = 0;
            buffer_t *to = now == s->out.data ? &s->raw : &s->out; /* never onto itself */
            if (pack(step, s, now, n, to, &got)) return -1;
            now = to->data;
            n = got;
            continue;
        }
        uint32_t sum = crc32c(now, n);
        if (now != s->out.data) {
            if (buffer_reserve(&s->out, n + 4 * MAX_STEPS)) return -1;
            memcpy(s->out.data, now, n);
            now = s->out.data;
        } else if (s->out.size < n + 4) {
            return -1;
        }
        put32(s->out.data + n, sum);
        n += 4;
    }
    *result = now;
    *size = n;
    return 0;
}
