#include "rows/rows.h"

#include <string.h>

/* The box around the points of a chunk. */
static void get_points_row(const oz_batch *batch, int64_t number, oz_row *row) {
    const oz_points *p = &batch->points;
    row->whole = 0, row->part[0] = number;
    for (int i = 0; i < batch->pipeline->ndim; i++) {
        const int64_t *inner = p->inner + i * p->count;
        int64_t low = INT64_MAX, high = 0;
        for (int64_t n = p->begin[number]; n < p->begin[number + 1]; n++) {
            low = inner[n] < low ? inner[n] : low;
            high = inner[n] > high ? inner[n] : high;
        }
        row->coords[i] = p->coords[number * batch->pipeline->ndim + i];
        row->inner[i] = low, row->outer[i] = 0, row->count[i] = high - low + 1, row->step[i] = 1;
    }
}

static void get_listed_row(const oz_batch *batch, int64_t number, oz_row *row) {
    int ndim = batch->pipeline->ndim;
    const int64_t *numbers = batch->listed.numbers + number * oz_listed_size(ndim);
    for (int i = 0; i < ndim; i++, numbers += 4) {
        row->coords[i] = 0, row->part[i] = number;
        row->inner[i] = numbers[0], row->outer[i] = numbers[1];
        row->count[i] = numbers[2], row->step[i] = numbers[3];
    }
    row->whole = numbers[0] != 0;
}

void oz_get_row(const oz_batch *batch, int64_t number, oz_row *row) {
    row->number = number;
    if (batch->listed.numbers) {
        get_listed_row(batch, number, row);
        return;
    }
    if (batch->points.coords) {
        get_points_row(batch, number, row);
        return;
    }
    row->whole = 1;
    for (int i = batch->pipeline->ndim - 1; i >= 0; i--) {
        const oz_axis *a = &batch->axes[i];
        int64_t k = number % a->length;
        number /= a->length;
        row->part[i] = k;
        row->coords[i] = a->chunk[k];
        row->inner[i] = a->inner[k];
        row->outer[i] = a->outer[k];
        row->count[i] = a->count[k];
        row->step[i] = a->step;
        row->whole &= a->whole[k] != 0;
    }
}

static oz_status get_listed_key(const oz_batch *batch, int64_t number, char *key) {
    const size_t *at = batch->listed.key_at + number;
    size_t size = at[1] - at[0];
    if (!batch->listed.keys || !size) return OZ_UNSUPPORTED;
    if (batch->prefix_size + size >= PATH_MAX) return oz_system_error(ENAMETOOLONG);
    memcpy(key, batch->prefix, batch->prefix_size);
    memcpy(key + batch->prefix_size, batch->listed.keys + at[0], size);
    key[batch->prefix_size + size] = 0;
    return OZ_OK;
}

/* Write a number that is not negative; return the bytes that it took, at most 19. */
static size_t put_number(char *to, int64_t number) {
    char digits[20];
    size_t count = 0;
    do digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    for (size_t i = 0; i < count; i++) to[i] = digits[count - 1 - i];
    return count;
}

oz_status oz_row_key(const oz_batch *batch, const oz_row *row, char *key) {
    if (batch->listed.numbers) return get_listed_key(batch, row->number, key);
    const size_t room = 64; /* for one number, separators and the final NUL */
    if (batch->prefix_size > PATH_MAX - room) return oz_system_error(ENAMETOOLONG);
    int ndim = batch->pipeline->ndim;
    size_t at = batch->prefix_size;
    memcpy(key, batch->prefix, batch->prefix_size);
    if (batch->key_style != 1) key[at++] = 'c';
    if (batch->key_style == 1 && ndim == 0) key[at++] = '0';
    for (int i = 0; i < ndim; i++) {
        if (at > PATH_MAX - room) return oz_system_error(ENAMETOOLONG);
        if (i > 0 || batch->key_style == 0) key[at++] = (char)batch->separator;
        at += put_number(key + at, row->coords[i]);
    }
    key[at] = 0;
    return OZ_OK;
}

oz_status oz_row_open(const oz_batch *batch, const oz_row *row, oz_input *input) {
    char key[PATH_MAX];
    *input = (oz_input){.file = -1, .identity = OZ_IDENTITY_MISSING};
    if (batch->values) {
        const oz_value *value = &batch->values[row->number];
        input->data = value->data, input->size = (int64_t)value->size;
        return value->data ? OZ_OK : OZ_MISSING;
    }
    oz_status status = oz_row_key(batch, row, key);
    return status ? status : oz_input_open(input, batch->directory, key);
}

unsigned char *oz_row_array(const oz_batch *batch, const oz_row *row) {
    unsigned char *array = batch->array;
    if (batch->elements) return array; /* positions are listed one by one */
    for (int i = 0; i < batch->pipeline->ndim; i++) array += row->outer[i] * batch->strides[i];
    return array;
}

int oz_clip(const oz_run *run, int64_t low, int64_t high, oz_clipped *part) {
    int64_t start = run->start, step = run->step;
    int64_t first = start >= low ? 0 : (low - start + step - 1) / step;
    int64_t beyond = start >= high ? 0 : (high - start + step - 1) / step;
    if (beyond > run->count) beyond = run->count;
    if (beyond <= first) return 0;
    *part = (oz_clipped){start + first * step - low, first, beyond - first};
    return 1;
}

void oz_touched_inner(const oz_pipeline *pipeline, const oz_row *row, oz_inner_box *touched) {
    touched->total = 1;
    for (int i = 0; i < pipeline->ndim; i++) {
        int64_t size = pipeline->inner->shape[i];
        int64_t last = row->inner[i] + (row->count[i] - 1) * row->step[i];
        touched->first[i] = row->inner[i] / size;
        touched->count[i] = last / size - touched->first[i] + 1;
        touched->total *= touched->count[i];
    }
}
