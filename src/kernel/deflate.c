/* gzip and zlib, by a libdeflate that is found when the module runs.
 *
 * The package `deflate`, which the Python codec uses, is one shared library with libdeflate's whole
 * interface inside. Where a build of it keeps that to itself, the kernel declines both codecs.
 */
#include "kernel.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef size_t pack_t(void *, const void *, size_t, void *, size_t);
typedef size_t bound_t(void *, size_t);
typedef int unpack_t(void *, const void *, size_t, void *, size_t, size_t *, size_t *);

static struct {
    void *(*alloc_compressor)(int);
    void *(*alloc_decompressor)(void);
    void (*free_compressor)(void *);
    void (*free_decompressor)(void *);
    pack_t *gzip_pack, *zlib_pack;
    bound_t *gzip_bound, *zlib_bound;
    unpack_t *gzip_unpack, *zlib_unpack;
} lib;
static atomic_int loaded;

/* Called with the GIL, so never twice at a time. */
int deflate_load(const char *file) {
    if (atomic_load(&loaded) || !file) return atomic_load(&loaded);
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return 0;
    struct {
        const char *name;
        void *place;
    } wanted[] = {
        {"libdeflate_alloc_compressor", &lib.alloc_compressor},
        {"libdeflate_alloc_decompressor", &lib.alloc_decompressor},
        {"libdeflate_free_compressor", &lib.free_compressor},
        {"libdeflate_free_decompressor", &lib.free_decompressor},
        {"libdeflate_gzip_compress", &lib.gzip_pack},
        {"libdeflate_zlib_compress", &lib.zlib_pack},
        {"libdeflate_gzip_compress_bound", &lib.gzip_bound},
        {"libdeflate_zlib_compress_bound", &lib.zlib_bound},
        {"libdeflate_gzip_decompress_ex", &lib.gzip_unpack},
        {"libdeflate_zlib_decompress_ex", &lib.zlib_unpack},
    };
    int found = 1;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *address = dlsym(handle, wanted[i].name);
        *(void **)wanted[i].place = address;
        found &= address != NULL;
    }
    if (!found) dlclose(handle);
    atomic_store(&loaded, found);
    return found;
}

/* One member, with nothing behind it. What else zlib would accept is left to the Python codec. */
int deflate_unpack(int kind, scratch_t *s, const unsigned char *data, size_t size,
                   unsigned char *out, size_t want) {
    size_t used = 0, made = 0;
    if (!s->deflate_d && !(s->deflate_d = lib.alloc_decompressor())) return -1;
    unpack_t *unpack = kind == STEP_GZIP ? lib.gzip_unpack : lib.zlib_unpack;
    if (unpack(s->deflate_d, data, size, out, want, &used, &made)) return -1;
    return used == size && made == want ? 0 : -1;
}

int deflate_pack(const step_t *step, scratch_t *s, const unsigned char *data, size_t size,
                 buffer_t *to, size_t *got) {
    if (s->deflate_c && s->deflate_level != step->level) {
        lib.free_compressor(s->deflate_c);
        s->deflate_c = NULL;
    }
    if (!s->deflate_c && !(s->deflate_c = lib.alloc_compressor(step->level))) return -1;
    s->deflate_level = step->level;
    int gzip = step->kind == STEP_GZIP;
    size_t room = (gzip ? lib.gzip_bound : lib.zlib_bound)(s->deflate_c, size);
    if (buffer_reserve(to, room + 4)) return -1;
    *got = (gzip ? lib.gzip_pack : lib.zlib_pack)(s->deflate_c, data, size, to->data, room);
    return *got ? 0 : -1;
}

void deflate_free(scratch_t *s) {
    if (s->deflate_d) lib.free_decompressor(s->deflate_d);
    if (s->deflate_c) lib.free_compressor(s->deflate_c);
}
