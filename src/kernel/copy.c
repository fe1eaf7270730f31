/* Copying boxes between arrays of any strides, and fill values. */
#include "kernel.h"

#include <string.h>

#define AHEAD 8        /* lines */
#define MOST_ASKED 512 /* bytes of a line; what comes then the processor foresees */

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

/* Asks for the cache lines at the beginning of a line that is written or read soon. Without, stores
 * to short lines far apart wait for one cache line after the other. The address need not exist. */
static inline void ask(const unsigned char *base, int64_t offset, int64_t size) {
    uintptr_t at = (uintptr_t)base + (uintptr_t)offset;
    for (int64_t k = 0; k < size && k < MOST_ASKED; k += 64)
        __builtin_prefetch((const void *)(at + (uintptr_t)k), 1);
}

typedef struct {
    int64_t n, from, to; /* how many, and the distance between them in both arrays */
} along_t;

/* Lines that lie apart; `next` is where those come that are copied after them. */
static void copy_lines(const along_t *lines, const along_t *line, int64_t itemsize,
                       const unsigned char *source, unsigned char *target,
                       const unsigned char *next) {
    int64_t size = line->n * itemsize, begun = lines->n < AHEAD ? lines->n : AHEAD;
    int runs = line->from == itemsize && line->to == itemsize;
    for (int64_t i = 0; i < lines->n; i++, source += lines->from, target += lines->to) {
        if (!runs) {
            copy_line(line->n, itemsize, source, line->from, target, line->to);
            continue;
        }
        if (i + begun < lines->n) ask(target, begun * lines->to, size);
        else ask(next, (i + begun - lines->n) * lines->to, size);
        memcpy(target, source, (size_t)size);
    }
}

/* Neighbouring axes that are one run in both arrays become one; the number of the last. */
static int merge(along_t *axes, int end) {
    int last = 0;
    for (int i = 1; i <= end; i++) {
        const along_t *a = &axes[i];
        if (axes[last].from == a->from * a->n && axes[last].to == a->to * a->n)
            axes[last] = (along_t){axes[last].n * a->n, a->from, a->to};
        else
            axes[++last] = *a;
    }
    return last;
}

void copy_box(int ndim, const int64_t *count, int64_t itemsize, const unsigned char *source,
              const int64_t *source_strides, unsigned char *target,
              const int64_t *target_strides) {
    along_t axes[MAX_AXES];
    int64_t at[MAX_AXES] = {0};
    int last = -1;
    for (int i = 0; i < ndim; i++) {
        if (count[i] == 0) return;
        if (count[i] == 1) continue;
        /* Sorted by the target's stride, largest first, so that the innermost writes in order. */
        int64_t key = target_strides[i] < 0 ? -target_strides[i] : target_strides[i];
        int j = ++last;
        for (; j > 0; j--) {
            int64_t other = axes[j - 1].to < 0 ? -axes[j - 1].to : axes[j - 1].to;
            if (other >= key) break;
            axes[j] = axes[j - 1];
        }
        axes[j] = (along_t){count[i], source_strides[i], target_strides[i]};
    }
    if (last < 0) {
        memcpy(target, source, (size_t)itemsize);
        return;
    }
    last = merge(axes, last);
    const along_t one = {1, 0, 0}, *lines = last ? &axes[last - 1] : &one;
    for (int i = 0; i >= 0;) {
        const unsigned char *from = source;
        unsigned char *to = target;
        for (i = last - 2; i >= 0; i--) {
            from += axes[i].from, to += axes[i].to;
            if (++at[i] < axes[i].n) break;
            from -= axes[i].from * axes[i].n, to -= axes[i].to * axes[i].n;
            at[i] = 0;
        }
        copy_lines(lines, &axes[last], itemsize, source, target, to);
        source = from, target = to;
    }
}

int is_fill(const chain_t *c, const unsigned char *data, int64_t size) {
    size_t item = (size_t)c->itemsize;
    if (memcmp(data, c->fill, item) != 0) return 0;
    return memcmp(data, data + item, (size_t)size - item) == 0;
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
