#include "codecs/codecs.h"

#include "codecs/bundled.h"

#define MAX_INPUT 0x7e000000 /* LZ4_MAX_INPUT_SIZE */

oz_status oz_lz4_decode(oz_bytes in, unsigned char *out, size_t want) {
    if (in.size < 5 || in.size > INT32_MAX || want > INT32_MAX || oz_get_u32(in.data) != want)
        return OZ_INVALID;
    int got =
        LZ4_decompress_safe((const char *)in.data + 4, (char *)out, (int)in.size - 4, (int)want);
    return got == (int)want ? OZ_OK : OZ_INVALID;
}

oz_status oz_lz4_encode(const oz_step *step, oz_bytes in, oz_buffer *out, size_t *size) {
    if (in.size > MAX_INPUT) return OZ_UNSUPPORTED;
    int room = LZ4_compressBound((int)in.size);
    oz_status status = oz_buffer_reserve(out, (size_t)room + 8);
    if (status) return status;
    oz_put_u32(out->data, (uint32_t)in.size);
    int got = LZ4_compress_fast((const char *)in.data, (char *)out->data + 4, (int)in.size, room,
                                step->level);
    *size = (size_t)got + 4;
    return got > 0 ? OZ_OK : OZ_UNSUPPORTED;
}
