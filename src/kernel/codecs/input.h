/* Stored bytes of a key: an open file, or a value in memory. */
#ifndef OZ_INPUT_H
#define OZ_INPUT_H

#include "codecs/workspace.h"

enum { OZ_IDENTITY_MISSING = 1 };

typedef struct {
    int file; /* owned from oz_input_open to oz_input_close; -1: in memory or missing */
    const unsigned char *data; /* borrowed from whoever holds the value; NULL for files */
    int64_t size;
    uint64_t identity; /* of a file: changes when it is replaced or modified */
} oz_input;

static inline oz_input oz_input_from(oz_bytes bytes) {
    return (oz_input){.file = -1, .data = bytes.data, .size = (int64_t)bytes.size};
}

/* Return the identity of the file at a path; OZ_IDENTITY_MISSING where there is none. */
uint64_t oz_path_identity(const char *path);

/* Open the file of a key. OZ_MISSING where there is no such file. Always followed by
 * oz_input_close. */
oz_status oz_input_open(oz_input *input, int directory, const char *key);
void oz_input_close(oz_input *input);

/* Read exactly `size` bytes; OZ_INVALID where the file ends before. */
oz_status oz_read_at(int file, unsigned char *to, size_t size, int64_t from);

/* Set `*data` to part of an input: in `buffer` where it has to be read, valid until that is used
 * again, else in the value itself. */
oz_status oz_input_read(oz_input *input, int64_t from, int64_t size, oz_buffer *buffer,
                        const unsigned char **data);

#endif
