/* Snappy's raw format: the length, then literals and copies of earlier bytes.
 *
 * Blosc chunks written until 2021 may contain it; libblosc2 does not support it. The encoder takes
 * the first match that it finds, and writes the same bytes as the Python codec.
 */
#include "codecs/codecs.h"

#include <string.h>

#define FRAGMENT 65536 /* copies reach back no further, so that their distances fit two bytes */
#define SLOTS 16384

/* Return the bytes that a varint takes, or 0 where it is not complete. */
static size_t get_length(const unsigned char *data, size_t size, uint64_t *length) {
    *length = 0;
    for (size_t i = 0; i < size && i < 5; i++) {
        *length |= (uint64_t)(data[i] & 127) << (7 * i);
        if (data[i] < 128) return i + 1;
    }
    return 0;
}

static size_t get_little(const unsigned char *data, size_t bytes) {
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) n |= (size_t)data[i] << (8 * i);
    return n;
}

oz_status oz_snappy_decode(oz_bytes in, unsigned char *out, size_t want) {
    const unsigned char *data = in.data;
    const size_t size = in.size;
    uint64_t length;
    size_t at = get_length(data, size, &length), done = 0;
    if (at == 0 || length != want) return OZ_INVALID;
    while (at < size) {
        unsigned tag = data[at++], kind = tag & 3;
        size_t count = (tag >> 2) + 1, wide, back;
        if (kind == 0) {
            wide = count > 60 ? count - 60 : 0; /* bytes of a length outside of the tag */
            if (wide > size - at) return OZ_INVALID;
            if (wide) count = get_little(data + at, wide) + 1;
            at += wide;
            if (count > size - at || count > want - done) return OZ_INVALID;
            memcpy(out + done, data + at, count);
            at += count, done += count;
            continue;
        }
        wide = kind == 3 ? 4 : kind;
        if (wide > size - at) return OZ_INVALID;
        back = get_little(data + at, wide), at += wide;
        if (kind == 1) back |= (size_t)(tag >> 5) << 8, count = (tag >> 2 & 7) + 4;
        if (back == 0 || back > done || count > want - done) return OZ_INVALID;
        if (back >= count) memcpy(out + done, out + done - back, count);
        else
            for (size_t i = 0; i < count; i++) out[done + i] = out[done + i - back];
        done += count;
    }
    return done == want ? OZ_OK : OZ_INVALID;
}

typedef struct {
    unsigned char *data; /* borrowed from the caller of oz_snappy_encode */
    size_t at, room;     /* at > room: it did not fit */
} stream;

/* Return room for `count` bytes, or NULL where there is not enough. */
static unsigned char *extend(stream *out, size_t count) {
    if (out->at > out->room || count > out->room - out->at) {
        out->at = out->room + 1;
        return NULL;
    }
    unsigned char *p = out->data + out->at;
    out->at += count;
    return p;
}

static void put_literal(stream *out, const unsigned char *data, size_t count) {
    if (count == 0) return;
    size_t last = count - 1, head = last < 60 ? 1 : last < 256 ? 2 : 3;
    unsigned char *p = extend(out, head + count);
    if (!p) return;
    p[0] = (unsigned char)((head == 1 ? last : 58 + head) << 2);
    if (head > 1) p[1] = (unsigned char)last;
    if (head > 2) p[2] = (unsigned char)(last >> 8);
    memcpy(p + head, data, count);
}

static void put_copy(stream *out, size_t back, size_t length) {
    while (length) {
        size_t part = length < 64 ? length : 64;
        unsigned char *p = extend(out, 3);
        if (!p) return;
        p[0] = (unsigned char)((part - 1) << 2 | 2);
        p[1] = (unsigned char)back, p[2] = (unsigned char)(back >> 8);
        length -= part;
    }
}

static void encode_fragment(stream *out, const unsigned char *data, size_t size) {
    uint16_t seen[SLOTS] = {0};
    size_t at = 0, literal = 0;
    while (at + 4 <= size && out->at <= out->room) {
        uint32_t slot = oz_get_u32(data + at) * 0x1E35A7BDu >> 18;
        size_t found = seen[slot];
        seen[slot] = (uint16_t)at;
        if (found >= at || memcmp(data + found, data + at, 4)) {
            at += 1 + (at - literal) / 32;
            continue;
        }
        size_t length = 4;
        while (at + length < size && data[at + length] == data[found + length]) length++;
        put_literal(out, data + literal, at - literal);
        put_copy(out, at - found, length);
        literal = at += length;
    }
    put_literal(out, data + literal, size - literal);
}

oz_status oz_snappy_encode(oz_bytes in, unsigned char *out, size_t room, size_t *size) {
    stream made = {out, 0, room};
    size_t rest = in.size;
    unsigned char *p;
    for (; rest > 127; rest >>= 7)
        if ((p = extend(&made, 1))) *p = (unsigned char)(rest | 128);
    if ((p = extend(&made, 1))) *p = (unsigned char)rest;
    for (size_t start = 0; start < in.size; start += FRAGMENT)
        encode_fragment(&made, in.data + start,
                        in.size - start < FRAGMENT ? in.size - start : FRAGMENT);
    *size = made.at;
    return made.at <= made.room ? OZ_OK : OZ_NOT_SMALLER;
}
