/* Snappy's raw format: the length, then literals and copies of what came before.
 *
 * Blosc chunks of programs up to 2021 may hold it; libblosc2 comes without it. The packer takes the
 * first match that it finds, and gives the same bytes as omnizarr/codecs/snappy.py.
 */
#include "kernel.h"

#include <string.h>

#define FRAGMENT 65536 /* copies reach back no further, so their distances fit two bytes */
#define SLOTS 16384

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

int snappy_unpack(const unsigned char *data, size_t size, unsigned char *out, size_t want) {
    uint64_t length;
    size_t at = get_length(data, size, &length), done = 0;
    if (at == 0 || length != want) return -1;
    while (at < size) {
        unsigned tag = data[at++], kind = tag & 3;
        size_t count = (tag >> 2) + 1, wide, back;
        if (kind == 0) {
            wide = count > 60 ? count - 60 : 0; /* of a length that does not fit the tag */
            if (wide > size - at) return -1;
            if (wide) count = get_little(data + at, wide) + 1;
            at += wide;
            if (count > size - at || count > want - done) return -1;
            memcpy(out + done, data + at, count);
            at += count, done += count;
            continue;
        }
        wide = kind == 3 ? 4 : kind;
        if (wide > size - at) return -1;
        back = get_little(data + at, wide), at += wide;
        if (kind == 1) back |= (size_t)(tag >> 5) << 8, count = (tag >> 2 & 7) + 4;
        if (back == 0 || back > done || count > want - done) return -1;
        if (back >= count)
            memcpy(out + done, out + done - back, count);
        else
            for (size_t i = 0; i < count; i++) out[done + i] = out[done + i - back];
        done += count;
    }
    return done == want ? 0 : -1;
}

typedef struct {
    unsigned char *out;
    size_t at, room; /* at > room: it did not fit */
} sink_bytes_t;

static unsigned char *take(sink_bytes_t *sink, size_t count) {
    if (sink->at > sink->room || count > sink->room - sink->at) {
        sink->at = sink->room + 1;
        return NULL;
    }
    unsigned char *p = sink->out + sink->at;
    sink->at += count;
    return p;
}

static void put_literal(sink_bytes_t *sink, const unsigned char *data, size_t count) {
    if (count == 0) return;
    size_t last = count - 1, head = last < 60 ? 1 : last < 256 ? 2 : 3;
    unsigned char *p = take(sink, head + count);
    if (!p) return;
    p[0] = (unsigned char)((head == 1 ? last : 58 + head) << 2);
    if (head > 1) p[1] = (unsigned char)last;
    if (head > 2) p[2] = (unsigned char)(last >> 8);
    memcpy(p + head, data, count);
}

static void put_copy(sink_bytes_t *sink, size_t back, size_t length) {
    while (length) {
        size_t part = length < 64 ? length : 64;
        unsigned char *p = take(sink, 3);
        if (!p) return;
        p[0] = (unsigned char)((part - 1) << 2 | 2);
        p[1] = (unsigned char)back, p[2] = (unsigned char)(back >> 8);
        length -= part;
    }
}

static void pack_fragment(sink_bytes_t *sink, const unsigned char *data, size_t size) {
    uint16_t seen[SLOTS] = {0};
    size_t at = 0, literal = 0;
    while (at + 4 <= size && sink->at <= sink->room) {
        uint32_t slot = get32(data + at) * 0x1E35A7BDu >> 18;
        size_t found = seen[slot];
        seen[slot] = (uint16_t)at;
        if (found >= at || memcmp(data + found, data + at, 4)) {
            at += 1 + (at - literal) / 32;
            continue;
        }
        size_t length = 4;
        while (at + length < size && data[at + length] == data[found + length]) length++;
        put_literal(sink, data + literal, at - literal);
        put_copy(sink, at - found, length);
        literal = at += length;
    }
    put_literal(sink, data + literal, size - literal);
}

size_t snappy_pack(const unsigned char *data, size_t size, unsigned char *out, size_t room) {
    sink_bytes_t sink = {out, 0, room};
    size_t rest = size;
    unsigned char *p;
    for (; rest > 127; rest >>= 7)
        if ((p = take(&sink, 1))) *p = (unsigned char)(rest | 128);
    if ((p = take(&sink, 1))) *p = (unsigned char)rest;
    for (size_t start = 0; start < size; start += FRAGMENT)
        pack_fragment(&sink, data + start, size - start < FRAGMENT ? size - start : FRAGMENT);
    return sink.at <= sink.room ? sink.at : 0;
}
