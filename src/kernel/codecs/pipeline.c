#include "codecs/pipeline.h"

#include <string.h>

void oz_swap_bytes(unsigned char *data, int64_t size, int unit) {
    for (unsigned char *p = data, *end = data + size; p + unit <= end; p += unit)
        for (int i = 0; i < unit / 2; i++) {
            unsigned char t = p[i];
            p[i] = p[unit - 1 - i];
            p[unit - 1 - i] = t;
        }
}

static double get_float(const unsigned char *data, size_t size) {
    float single;
    double number;
    if (size == sizeof single) {
        memcpy(&single, data, sizeof single);
        return single;
    }
    memcpy(&number, data, sizeof number);
    return number;
}

/* Return 1 where an item of one or two numbers equals the fill value. */
static int equals_fill(const oz_pipeline *pipeline, const unsigned char *item) {
    size_t size = (size_t)(pipeline->itemsize / pipeline->fill_parts);
    int equal = 1, nan = 0, fill_nan = 0;
    for (int i = 0; i < pipeline->fill_parts; i++) {
        double a = get_float(item + (size_t)i * size, size);
        double b = get_float(pipeline->fill + (size_t)i * size, size);
        equal &= a == b, nan |= a != a, fill_nan |= b != b;
    }
    return equal || (nan && fill_nan);
}

int oz_is_fill(const oz_pipeline *pipeline, const unsigned char *data, int64_t size) {
    size_t item = (size_t)pipeline->itemsize;
    if (pipeline->fill_parts) {
        for (int64_t at = 0; at < size; at += pipeline->itemsize)
            if (!equals_fill(pipeline, data + at)) return 0;
        return 1;
    }
    if (memcmp(data, pipeline->fill, item) != 0) return 0;
    return memcmp(data, data + item, (size_t)size - item) == 0;
}

void oz_put_fill(const oz_pipeline *pipeline, unsigned char *data) {
    size_t item = (size_t)pipeline->itemsize, total = (size_t)pipeline->nbytes;
    if (total == 0) return;
    memcpy(data, pipeline->fill, item);
    for (size_t done = item; done < total;) {
        size_t more = done < total - done ? done : total - done;
        memcpy(data + done, data, more);
        done += more;
    }
}

/* Verify a checksum at the end, and cut it off. */
static oz_status verify_checksum(oz_bytes *data) {
    if (data->size < 4) return OZ_INVALID;
    data->size -= 4;
    return oz_crc32c(data->data, data->size) == oz_get_u32(data->data + data->size) ? OZ_OK
                                                                                    : OZ_INVALID;
}

static oz_status decode_step(int codec, oz_workspace *workspace, oz_bytes in, unsigned char *out,
                             size_t want, size_t needed) {
    switch (codec) {
    case OZ_BLOSC: {
        oz_input input = oz_input_from(in);
        oz_blosc1 buffer;
        oz_status status = oz_blosc1_open(workspace, &input, (int64_t)want, &buffer);
        if (status) return status;
        return oz_blosc1_decode(&buffer, workspace, &input, 0, (int64_t)want, out);
    }
    case OZ_ZSTD: return oz_zstd_decode(workspace, in, out, want, needed);
    case OZ_LZ4: return oz_lz4_decode(in, out, want);
    default: return oz_deflate_decode(codec, workspace, in, out, want);
    }
}

int oz_blosc_is_last(const oz_pipeline *pipeline) {
    if (pipeline->nsteps == 0 || pipeline->steps[0].codec != OZ_BLOSC) return 0;
    for (int i = 1; i < pipeline->nsteps; i++)
        if (pipeline->steps[i].codec != OZ_CRC32C) return 0;
    return 1;
}

oz_status oz_verify_checksums(const oz_pipeline *pipeline, oz_bytes *data) {
    oz_status status = OZ_OK;
    for (int i = pipeline->nsteps - 1; i > 0 && !status; i--) status = verify_checksum(data);
    return status;
}

oz_status oz_decode(const oz_pipeline *pipeline, oz_workspace *workspace, oz_bytes in,
                    size_t needed, unsigned char *target, const unsigned char **result) {
    oz_status status = OZ_OK;
    /* At most one codec compresses (pipeline_object.c checks that), so the size of its result is
     * known: the decoded bytes, and a checksum for each codec before it. */
    for (int i = pipeline->nsteps - 1; i >= 0; i--) {
        const oz_step *step = &pipeline->steps[i];
        if (step->codec == OZ_CRC32C) {
            if ((status = verify_checksum(&in))) return status;
            continue;
        }
        size_t want = (size_t)pipeline->nbytes + 4 * (size_t)i;
        if (i > 0 && (status = oz_buffer_reserve(&workspace->between, want ? want : 1)))
            return status;
        unsigned char *out = i > 0 ? workspace->between.data : target;
        size_t part = i > 0 ? want : needed; /* a checksum is over all bytes */
        if ((status = decode_step(step->codec, workspace, in, out, want, part))) return status;
        in = (oz_bytes){out, want};
    }
    if (in.size != (size_t)pipeline->nbytes) return OZ_INVALID;
    *result = in.data;
    return OZ_OK;
}

oz_status oz_decode_into(const oz_pipeline *pipeline, oz_workspace *workspace, oz_bytes in,
                         unsigned char *target) {
    const unsigned char *found; /* borrowed from `target`, the workspace or `in` */
    size_t all = (size_t)pipeline->nbytes;
    oz_status status = oz_decode(pipeline, workspace, in, all, target, &found);
    if (status) return status;
    if (found != target) memcpy(target, found, (size_t)pipeline->nbytes);
    if (pipeline->swap) oz_swap_bytes(target, pipeline->nbytes, pipeline->swap);
    return OZ_OK;
}

static oz_status encode_step(const oz_step *step, oz_workspace *workspace, oz_bytes in,
                             oz_buffer *out, size_t *size) {
    switch (step->codec) {
    case OZ_BLOSC:
        if (in.size > INT32_MAX - OZ_BLOSC_HEADER) return OZ_UNSUPPORTED;
        if (oz_buffer_reserve(out, in.size + OZ_BLOSC_HEADER + 4)) return OZ_NO_MEMORY;
        return oz_blosc1_encode(step, workspace, in, out->data, size);
    case OZ_ZSTD: return oz_zstd_encode(step, workspace, in, out, size);
    case OZ_LZ4: return oz_lz4_encode(step, in, out, size);
    default: return oz_deflate_encode(step, workspace, in, out, size);
    }
}

oz_status oz_encode_from(const oz_pipeline *pipeline, oz_workspace *workspace, int first,
                         oz_bytes in, oz_bytes *result) {
    oz_buffer *encoded = &workspace->encoded;
    for (int i = first; i < pipeline->nsteps; i++) {
        const oz_step *step = &pipeline->steps[i];
        if (step->codec != OZ_CRC32C) {
            oz_buffer *out = in.data == encoded->data ? &workspace->stored : encoded;
            size_t size = 0;
            oz_status status = encode_step(step, workspace, in, out, &size);
            if (status) return status;
            in = (oz_bytes){out->data, size};
            continue;
        }
        uint32_t sum = oz_crc32c(in.data, in.size);
        if (in.data != encoded->data) {
            if (oz_buffer_reserve(encoded, in.size + 4 * OZ_MAX_STEPS)) return OZ_NO_MEMORY;
            memcpy(encoded->data, in.data, in.size);
            in.data = encoded->data;
        } else if (encoded->size < in.size + 4) {
            return OZ_NO_MEMORY;
        }
        oz_put_u32(encoded->data + in.size, sum);
        in.size += 4;
    }
    *result = in;
    return OZ_OK;
}

oz_status oz_encode(const oz_pipeline *pipeline, oz_workspace *workspace, unsigned char *data,
                    oz_bytes *result) {
    if (!pipeline->keep_empty && oz_is_fill(pipeline, data, pipeline->nbytes)) {
        *result = (oz_bytes){NULL, 0};
        return OZ_OK;
    }
    if (pipeline->swap) oz_swap_bytes(data, pipeline->nbytes, pipeline->swap);
    oz_bytes in = {data, (size_t)pipeline->nbytes};
    return oz_encode_from(pipeline, workspace, 0, in, result);
}
