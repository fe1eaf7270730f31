/* CRC-32C (RFC 3720), with the processor's instruction where it has one. */
#include "codecs/codecs.h"

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
        uint32_t low = c ^ oz_get_u32(p);
        c = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^
            table[4][low >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n; n--) c = table[0][(c ^ *p++) & 255] ^ (c >> 8);
    return c;
}

#if defined(__x86_64__)
#include <nmmintrin.h>
#define WITH_CRC __attribute__((target("sse4.2")))
#define CRC_8(c, v) _mm_crc32_u64(c, v)
#define CRC_1(c, v) _mm_crc32_u8((uint32_t)(c), v)
typedef uint64_t checksum; /* as wide as the instruction, or every step would cut it */
static int has_instruction(void) { return __builtin_cpu_supports("sse4.2") != 0; }

#elif defined(__aarch64__) && (defined(__ARM_FEATURE_CRC32) || defined(__linux__))
typedef uint32_t checksum;
#ifdef __clang__ /* its arm_acle.h has the functions only where every processor has them */
#define CRC_8(c, v) __builtin_arm_crc32cd(c, v)
#define CRC_1(c, v) __builtin_arm_crc32cb(c, v)
#define WITH_CRC __attribute__((target("crc")))
#else
#include <arm_acle.h>
#define CRC_8(c, v) __crc32cd(c, v)
#define CRC_1(c, v) __crc32cb(c, v)
#define WITH_CRC __attribute__((target("+crc")))
#endif
#ifdef __ARM_FEATURE_CRC32 /* all processors of this target have it, as those of Apple */
static int has_instruction(void) { return 1; }
#else
#include <sys/auxv.h>
#define HWCAP_CRC32_BIT (1 << 7)
static int has_instruction(void) { return (getauxval(AT_HWCAP) & HWCAP_CRC32_BIT) != 0; }
#endif
#endif

#ifdef WITH_CRC
WITH_CRC static uint32_t by_instruction(uint32_t start, const unsigned char *p, size_t n) {
    checksum c = start;
    uint64_t v;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&v, p, 8);
        c = CRC_8(c, v);
    }
    for (; n; n--) c = CRC_1(c, *p++);
    return (uint32_t)c;
}
#endif

uint32_t oz_crc32c(const unsigned char *data, size_t size) {
    uint32_t start = 0xffffffffu;
#ifdef WITH_CRC
    if (has_instruction()) return ~by_instruction(start, data, size);
#endif
    return ~by_table(start, data, size);
}
