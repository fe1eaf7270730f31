/* CRC-32C (RFC 3720), with the processor's instruction where it has one. */
#include "kernel.h"

#include <pthread.h>
#include <string.h>

static uint32_t table[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? 0x82f63b78u ^ (c >> 1) : c >> 1;
        table[0][i] = c;
    }
    for (int t = 1; t < 8; t++)
        for (int i = 0; i < 256; i++)
            table[t][i] = (table[t - 1][i] >> 8) ^ table[0][table[t - 1][i] & 255];
}

static uint32_t by_table(uint32_t c, const unsigned char *p, size_t n) {
    pthread_once(&once, make_table);
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t lo = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                           (uint32_t)p[3] << 24);
        c = table[7][lo & 255] ^ table[6][lo >> 8 & 255] ^ table[5][lo >> 16 & 255] ^
            table[4][lo >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n; n--) c = table[0][(c ^ *p++) & 255] ^ (c >> 8);
    return c;
}

#if defined(__x86_64__)
#include <nmmintrin.h>
__attribute__((target("sse4.2"))) static uint32_t by_processor(uint32_t c, const unsigned char *p,
                                                               size_t n) {
    uint64_t v, wide = c;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&v, p, 8);
        wide = _mm_crc32_u64(wide, v);
    }
    c = (uint32_t)wide;
    for (; n; n--) c = _mm_crc32_u8(c, *p++);
    return c;
}
static int processor_can(void) { return __builtin_cpu_supports("sse4.2"); }
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#define HWCAP_CRC32_BIT (1 << 7)
#pragma GCC push_options
#pragma GCC target("+crc")
#include <arm_acle.h>
static uint32_t by_processor(uint32_t c, const unsigned char *p, size_t n) {
    uint64_t v;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&v, p, 8);
        c = __crc32cd(c, v);
    }
    for (; n; n--) c = __crc32cb(c, *p++);
    return c;
}
#pragma GCC pop_options
static int processor_can(void) { return (getauxval(AT_HWCAP) & HWCAP_CRC32_BIT) != 0; }
#else
static uint32_t by_processor(uint32_t c, const unsigned char *p, size_t n) {
    return by_table(c, p, n);
}
static int processor_can(void) { return 0; }
#endif

uint32_t crc32c(const unsigned char *data, size_t size) {
    uint32_t start = 0xffffffffu;
    return ~(processor_can() ? by_processor(start, data, size) : by_table(start, data, size));
}
