/* Copying boxes between arrays of any strides, and fill values. */
#include "kernel.h"

#include <string.h>

static void copy_line(int64_t count, int64_t itemsize, const unsigned char *source, int64_t from,
                      unsigned char *target, int64_t to) {
    if (from == itemsize && to == itemsize) {
        memcpy(target, source, (size_t)(count * itemsize));
        return;
    }
#define LINE(type)                                                  \
    for (int64_t i = 0; i < count; i++, source += from, target += to) { \
        type v;                                                     \
        memcpy(&v, source, sizeof v);                               \
        memcpy(target, &v, sizeof v);                               \
    }                                                               \
    return
    switch (itemsize) {
    case 1: LINE(uint8_t);
    case 2: LINE(uint16_t);
    case 4: LINE(uint32_t);
    case 8: LINE(uint64_t);
    }
#undef LINE
    for (int64_t i = 0; i < count; i++, source += from, target += to)
        memcpy(target, source, (size_t)itemsize);
}

void copy_box(int ndim, const int64_t *count, int64_t itemsize, const unsigned char *source,
              const int64_t *source_strides, unsigned char *target,
              const int64_t *target_strides) {
    int64_t n[MAX_AXES], from[MAX_AXES], to[MAX_AXES], at[MAX_AXES];
    int axes = 0;
    for (int i = 0; i < ndim; i++) {
        if (count[i] == 0) return;
        if (count[i] == 1) continue;
        /* Sorted by the target's stride, largest first, so that the innermost writes in order. */
        int64_t key = target_strides[i] < 0 ? -target_strides[i] : target_strides[i];
        int j = axes++;
        for (; j > 0; j--) {
            int64_t other = to[j - 1] < 0 ? -to[j - 1] : to[j - 1];
            if (other >= key) break;
            n[j] = n[j - 1], from[j] = from[j - 1], to[j] = to[j - 1];
        }
        n[j] = count[i], from[j] = source_strides[i], to[j] = target_strides[i];
    }
    if (axes == 0) {
        memcpy(target, source, (size_t)itemsize);
        return;
    }
    /* Neighbouring axes that are one run in both arrays become one. */
    int last = 0;
    for (int i = 1; i < axes; i++) {
        if (from[last] == from[i] * n[i] && to[last] == to[i] * n[i]) {
            n[last] *= n[i], from[last] = from[i], to[last] = to[i];
        } else {
            last++;
            n[last] = n[i], from[last] = from[i], to[last] = to[i];
        }
    }
    memset(at, 0, sizeof at);
    for (;;) {
        copy_line(n[last], itemsize, source, from[last], target, to[last]);
        int i = last - 1;
        for (; i >= 0; i--) {
            source += from[i], target += to[i];
            if (++at[i] < n[i]) break;
            source -= from[i] * n[i], target -= to[i] * n[i];
            at[i] = 0;
        }
        if (i < 0) return;
    }
}

int is_fill(const chain_t *c, const unsigned char *data) {
    size_t item = (size_t)c->itemsize;
    if (c->nbytes == 0) return 1;
    if (memcmp(data, c->fill, item) != 0) return 0;
    return memcmp(data, data + item, (size_t)c->nbytes - item) == 0;
}

void put_fill(const chain_t *c, unsigned char *data) {
    size_t item = (size_t)c->itemsize, total = (size_t)c->nbytes;
    if (total == 0) return;
    memcpy(data, c->fill, item);
    for (size_t done = item; done < total;) {
        size_t more = done < total - done ? done : total - done;
        memcpy(data + done, data, more);
        done += more;
    }
}
