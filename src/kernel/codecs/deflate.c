/* gzip and zlib by a libdeflate that is found at run time.
 *
 * The package `deflate`, which the Python codec uses, is one shared library that contains all of
 * libdeflate. Where a build of it does not export the functions, the kernel declines both codecs.
 */
#include "codecs/codecs.h"

#include <dlfcn.h>
#include <stdatomic.h>

typedef size_t encode_function(void *, const void *, size_t, void *, size_t);
typedef size_t bound_function(void *, size_t);
typedef int decode_function(void *, const void *, size_t, void *, size_t, size_t *, size_t *);

static struct {
    void *(*alloc_compressor)(int);
    void *(*alloc_decompressor)(void);
    void (*free_compressor)(void *);
    void (*free_decompressor)(void *);
    encode_function *gzip_encode, *zlib_encode;
    bound_function *gzip_bound, *zlib_bound;
    decode_function *gzip_decode, *zlib_decode;
} lib; /* borrowed from a shared library that stays loaded */
static atomic_int loaded;

int oz_deflate_loaded(void) { return atomic_load(&loaded); }

oz_status oz_deflate_load(const char *file) {
    if (oz_deflate_loaded()) return OZ_OK;
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL); /* never closed once it is used */
    if (!handle) return OZ_UNSUPPORTED;
    struct {
        const char *name; /* borrowed: a literal */
        void *address;    /* borrowed: of a member of `lib` */
    } wanted[] = {
        {"libdeflate_alloc_compressor", &lib.alloc_compressor},
        {"libdeflate_alloc_decompressor", &lib.alloc_decompressor},
        {"libdeflate_free_compressor", &lib.free_compressor},
        {"libdeflate_free_decompressor", &lib.free_decompressor},
        {"libdeflate_gzip_compress", &lib.gzip_encode},
        {"libdeflate_zlib_compress", &lib.zlib_encode},
        {"libdeflate_gzip_compress_bound", &lib.gzip_bound},
        {"libdeflate_zlib_compress_bound", &lib.zlib_bound},
        {"libdeflate_gzip_decompress_ex", &lib.gzip_decode},
        {"libdeflate_zlib_decompress_ex", &lib.zlib_decode},
    };
    int complete = 1;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *found = dlsym(handle, wanted[i].name);
        *(void **)wanted[i].address = found;
        complete &= found != NULL;
    }
    if (!complete) dlclose(handle);
    atomic_store(&loaded, complete);
    return complete ? OZ_OK : OZ_UNSUPPORTED;
}

/* One member, with nothing after it. What else zlib accepts is left to the Python codec. */
oz_status oz_deflate_decode(int codec, oz_workspace *workspace, oz_bytes in, unsigned char *out,
                            size_t want) {
    size_t used = 0, made = 0;
    oz_context *context = &workspace->contexts[OZ_DEFLATE_DECODER];
    if (!context->data)
        *context = (oz_context){lib.alloc_decompressor(), lib.free_decompressor, NULL};
    if (!context->data) return OZ_NO_MEMORY;
    decode_function *decode = codec == OZ_GZIP ? lib.gzip_decode : lib.zlib_decode;
    if (decode(context->data, in.data, in.size, out, want, &used, &made)) return OZ_INVALID;
    return used == in.size && made == want ? OZ_OK : OZ_INVALID;
}

oz_status oz_deflate_encode(const oz_step *step, oz_workspace *workspace, oz_bytes in,
                            oz_buffer *out, size_t *size) {
    oz_context *context = &workspace->contexts[OZ_DEFLATE_ENCODER];
    if (context->data && workspace->deflate_level != step->level) {
        lib.free_compressor(context->data);
        context->data = NULL;
    }
    if (!context->data)
        *context = (oz_context){lib.alloc_compressor(step->level), lib.free_compressor, NULL};
    if (!context->data) return OZ_NO_MEMORY;
    workspace->deflate_level = step->level;
    int gzip = step->codec == OZ_GZIP;
    size_t room = (gzip ? lib.gzip_bound : lib.zlib_bound)(context->data, in.size);
    oz_status status = oz_buffer_reserve(out, room + 4);
    if (status) return status;
    encode_function *encode = gzip ? lib.gzip_encode : lib.zlib_encode;
    *size = encode(context->data, in.data, in.size, out->data, room);
    return *size ? OZ_OK : OZ_UNSUPPORTED;
}
