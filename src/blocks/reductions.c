/* Reduce a row of blocks. Rows of the source are added (or compared) one after the other, then
 * neighbours along the row: NumPy does the same in the same order, so floats are equal to the last
 * bit. */
#include "blocks.h"

#include <stdint.h>

#define ROW(T, r) ((const T *)(in + blocks->offsets[r]))

/* Combine all rows, then neighbours; FINISH turns the total, of type W, into an element. */
#define REDUCE(NAME, T, W, COMBINE, PREPARE, FINISH)                                      \
    static void NAME(const oz_blocks *blocks, const char *in, char *to, ptrdiff_t length, \
                     void *scratch) {                                                     \
        const ptrdiff_t f = blocks->factor, n = length * f;                               \
        W *restrict all = scratch;                                                        \
        T *restrict out = (T *)to;                                                        \
        PREPARE;                                                                          \
        const T *restrict row = ROW(T, 0);                                                \
        for (ptrdiff_t j = 0; j < n; j++) all[j] = (W)row[j];                             \
        for (ptrdiff_t r = 1; r < blocks->rows; r++) {                                    \
            row = ROW(T, r);                                                              \
            for (ptrdiff_t j = 0; j < n; j++) all[j] = COMBINE(W, all[j], (W)row[j]);     \
        }                                                                                 \
        if (f == 2) {                                                                     \
            for (ptrdiff_t i = 0; i < length; i++) {                                      \
                W one = COMBINE(W, all[2 * i], all[2 * i + 1]);                           \
                out[i] = (T)(FINISH(W, one));                                             \
            }                                                                             \
            return;                                                                       \
        }                                                                                 \
        for (ptrdiff_t i = 0; i < length; i++) {                                          \
            W one = all[i * f];                                                           \
            for (ptrdiff_t k = 1; k < f; k++) one = COMBINE(W, one, all[i * f + k]);      \
            out[i] = (T)(FINISH(W, one));                                                 \
        }                                                                                 \
    }

#define ADD(W, a, b) ((W)((a) + (b)))
#define COUNT ptrdiff_t count = blocks->rows * blocks->factor
#define HALF \
    COUNT;   \
    const ptrdiff_t half = count / 2
#define SHIFT \
    HALF;     \
    const int shift = log2_of(count)
/* Halves are rounded up; a shift rounds down, for negative numbers too. */
#define SHIFTED(W, s) (((s) + (W)half) >> shift)
#define DIVIDED(W, s) (((s) + (W)half) / (W)count)
#define FLOORED(W, s) floor_division((int64_t)(s) + half, count)
#define QUOTIENT(W, s) ((s) / (double)count)

static int log2_of(ptrdiff_t power) {
    int exponent = 0;
    while (power >>= 1) exponent++;
    return exponent;
}

static int64_t floor_division(int64_t a, int64_t b) { return a / b - (a % b < 0); }

REDUCE(mean_u1_shift, uint8_t, uint32_t, ADD, SHIFT, SHIFTED)
REDUCE(mean_u2_shift, uint16_t, uint32_t, ADD, SHIFT, SHIFTED)
REDUCE(mean_u4_shift, uint32_t, uint64_t, ADD, SHIFT, SHIFTED)
REDUCE(mean_i1_shift, int8_t, int32_t, ADD, SHIFT, SHIFTED)
REDUCE(mean_i2_shift, int16_t, int32_t, ADD, SHIFT, SHIFTED)
REDUCE(mean_i4_shift, int32_t, int64_t, ADD, SHIFT, SHIFTED)
REDUCE(mean_u1, uint8_t, uint32_t, ADD, HALF, DIVIDED)
REDUCE(mean_u2, uint16_t, uint32_t, ADD, HALF, DIVIDED)
REDUCE(mean_u4, uint32_t, uint64_t, ADD, HALF, DIVIDED)
REDUCE(mean_i1, int8_t, int32_t, ADD, HALF, FLOORED)
REDUCE(mean_i2, int16_t, int32_t, ADD, HALF, FLOORED)
REDUCE(mean_i4, int32_t, int64_t, ADD, HALF, FLOORED)
REDUCE(mean_f4, float, double, ADD, COUNT, QUOTIENT)
REDUCE(mean_f8, double, double, ADD, COUNT, QUOTIENT)

#define LARGER(W, a, b) ((a) > (b) ? (a) : (b))
#define LARGER_OR_NAN(W, a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define SAME(W, x) (x)
#define NOTHING (void)0
#define MAX_OF(NAME, T, COMBINE) REDUCE(NAME, T, T, COMBINE, NOTHING, SAME)

MAX_OF(max_u1, uint8_t, LARGER)
MAX_OF(max_u2, uint16_t, LARGER)
MAX_OF(max_u4, uint32_t, LARGER)
MAX_OF(max_u8, uint64_t, LARGER)
MAX_OF(max_i1, int8_t, LARGER)
MAX_OF(max_i2, int16_t, LARGER)
MAX_OF(max_i4, int32_t, LARGER)
MAX_OF(max_i8, int64_t, LARGER)
MAX_OF(max_f4, float, LARGER_OR_NAN)
MAX_OF(max_f8, double, LARGER_OR_NAN)

/* The most frequent value, the smallest one of several. Most blocks of labels have one value only,
 * which is found without sorting. */
#define MODE_OF(NAME, T)                                                                     \
    static T NAME##_sorted(T *values, ptrdiff_t count) {                                     \
        for (ptrdiff_t i = 1; i < count; i++) {                                              \
            T each = values[i];                                                              \
            ptrdiff_t k = i;                                                                 \
            for (; k > 0 && values[k - 1] > each; k--) values[k] = values[k - 1];            \
            values[k] = each;                                                                \
        }                                                                                    \
        T best = values[0];                                                                  \
        ptrdiff_t longest = 1, run = 1;                                                      \
        for (ptrdiff_t i = 1; i < count; i++) {                                              \
            run = values[i] == values[i - 1] ? run + 1 : 1;                                  \
            if (run > longest) {                                                             \
                longest = run;                                                               \
                best = values[i];                                                            \
            }                                                                                \
        }                                                                                    \
        return best;                                                                         \
    }                                                                                        \
    static void NAME(const oz_blocks *blocks, const char *in, char *to, ptrdiff_t length,    \
                     void *scratch) {                                                        \
        const ptrdiff_t f = blocks->factor, rows = blocks->rows;                             \
        T *restrict out = (T *)to;                                                           \
        unsigned char *restrict mixed = scratch;                                             \
        const T *restrict first = ROW(T, 0);                                                 \
        for (ptrdiff_t i = 0; i < length; i++) {                                             \
            out[i] = first[i * f];                                                           \
            mixed[i] = 0;                                                                    \
        }                                                                                    \
        for (ptrdiff_t r = 0; r < rows; r++) {                                               \
            const T *restrict row = ROW(T, r);                                               \
            for (ptrdiff_t k = 0; k < f; k++)                                                \
                for (ptrdiff_t i = 0; i < length; i++) mixed[i] |= row[i * f + k] != out[i]; \
        }                                                                                    \
        for (ptrdiff_t i = 0; i < length; i++) {                                             \
            if (!mixed[i]) continue;                                                         \
            T values[OZ_MAX_MODE];                                                           \
            ptrdiff_t count = 0;                                                             \
            for (ptrdiff_t r = 0; r < rows; r++)                                             \
                for (ptrdiff_t k = 0; k < f; k++) values[count++] = ROW(T, r)[i * f + k];    \
            out[i] = NAME##_sorted(values, count);                                           \
        }                                                                                    \
    }

MODE_OF(mode_u1, uint8_t)
MODE_OF(mode_u2, uint16_t)
MODE_OF(mode_u4, uint32_t)
MODE_OF(mode_u8, uint64_t)
MODE_OF(mode_i1, int8_t)
MODE_OF(mode_i2, int16_t)
MODE_OF(mode_i4, int32_t)
MODE_OF(mode_i8, int64_t)

typedef struct {
    char kind;
    ptrdiff_t size;
    /* Borrowed: functions of this file; mean_shift is for blocks of 2**n elements. */
    oz_reduction *mean, *mean_shift, *max, *mode;
} element_type;

static const element_type TYPES[] = {
    {'u', 1, mean_u1, mean_u1_shift, max_u1, mode_u1},
    {'u', 2, mean_u2, mean_u2_shift, max_u2, mode_u2},
    {'u', 4, mean_u4, mean_u4_shift, max_u4, mode_u4},
    {'u', 8, NULL, NULL, max_u8, mode_u8},
    {'i', 1, mean_i1, mean_i1_shift, max_i1, mode_i1},
    {'i', 2, mean_i2, mean_i2_shift, max_i2, mode_i2},
    {'i', 4, mean_i4, mean_i4_shift, max_i4, mode_i4},
    {'i', 8, NULL, NULL, max_i8, mode_i8},
    {'f', 4, mean_f4, mean_f4, max_f4, NULL},
    {'f', 8, mean_f8, mean_f8, max_f8, NULL},
};

oz_reduction *oz_find_reduction(int method, char kind, ptrdiff_t size, ptrdiff_t count) {
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        const element_type *type = &TYPES[i];
        if (type->kind != kind || type->size != size) continue;
        if (method == OZ_MAX) return type->max;
        if (method == OZ_MODE) return count <= OZ_MAX_MODE ? type->mode : NULL;
        if (count > 1 << 15) return NULL; /* sums of 16 bits fit into 32 */
        return count & (count - 1) ? type->mean : type->mean_shift;
    }
    return NULL;
}
