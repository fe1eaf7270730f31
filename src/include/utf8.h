/* Checking UTF-8. */
#ifndef OZ_UTF8_H
#define OZ_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Return 1 for UTF-8 as in RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
static inline int oz_is_utf8(const unsigned char *p, size_t n) {
    const unsigned char *end = p + n;
    while (p < end) {
        while (end - p >= 8) {
            uint64_t word;
            memcpy(&word, p, 8);
            if (word & 0x8080808080808080u) break;
            p += 8;
        }
        if (p == end) break;
        unsigned char c = *p++;
        if (c < 0x80) continue;
        int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        if (c < 0xc2 || c > 0xf4 || end - p < more) return 0;
        if (c == 0xe0 && p[0] < 0xa0) return 0;
        if (c == 0xed && p[0] > 0x9f) return 0;
        if (c == 0xf0 && p[0] < 0x90) return 0;
        if (c == 0xf4 && p[0] > 0x8f) return 0;
        for (int i = 0; i < more; i++)
            if ((p[i] & 0xc0) != 0x80) return 0;
        p += more;
    }
    return 1;
}

#endif
