#define _GNU_SOURCE /* copy_file_range */
#include "rows/output.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)1 << 20)
#define MAX_ATTEMPTS 8 /* to open a file in a directory; then the reference engine tries */

static oz_status open_file(const oz_batch *batch, oz_output *output) {
    char key[PATH_MAX];
    int replaces = !output->row.whole || atomic_load(&batch->replacing);
    oz_status status = oz_row_key(batch, &output->row, key);
    if (status) return status;
    for (int i = 0; i < MAX_ATTEMPTS; i++) { /* others may remove a directory while it is empty */
        status = oz_atomic_file_open(&output->atomic, batch->directory, key, replaces);
        output->atomic.local = batch->local;
        if (!status || errno != ENOENT) return status;
        if (oz_make_parents(batch->directory, key) && errno != ENOENT) return OZ_SYSTEM;
    }
    return status;
}

/* Make the names in the directories on the way to a key durable, the nearest first. */
static oz_status sync_parents(const oz_batch *batch, char *key) {
    for (char *end = strrchr(key, '/'); end; end = strrchr(key, '/')) {
        *end = 0;
        int parent = openat(batch->directory, key, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (parent < 0) return OZ_SYSTEM;
        int failed = fsync(parent) != 0, error = errno;
        close(parent);
        if (failed) return oz_system_error(error);
    }
    return fsync(batch->directory) == 0 ? OZ_OK : OZ_SYSTEM;
}

static oz_status write_to_memory(oz_value *value, oz_bytes piece, size_t at) {
    size_t end = at + piece.size;
    if (end > value->room) {
        size_t room = value->room ? 2 * end : end; /* a chunk comes in one piece */
        unsigned char *more = realloc(value->own, room);
        if (!more) return OZ_NO_MEMORY;
        value->own = more, value->room = room;
    }
    memcpy(value->own + at, piece.data, piece.size);
    if (end > value->size) value->size = end;
    return OZ_OK;
}

void oz_output_start(oz_output *output, const oz_row *row) {
    *output = (oz_output){.row = *row, .atomic = {.file = -1}};
}

oz_status oz_output_write(const oz_batch *batch, oz_output *output, oz_bytes piece, size_t at) {
    output->used = 1;
    if (batch->stored) return write_to_memory(&batch->stored[output->row.number], piece, at);
    oz_status status = output->atomic.file < 0 ? open_file(batch, output) : OZ_OK;
    if (status) return status;
    while (piece.size) {
        ssize_t done = pwrite(output->atomic.file, piece.data, piece.size, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return OZ_SYSTEM;
        if (done == 0) return oz_system_error(ENOSPC);
        piece.data += done, piece.size -= (size_t)done, at += (size_t)done;
    }
    return OZ_OK;
}

oz_status oz_output_copy(const oz_batch *batch, oz_output *output, oz_input *input, int64_t from,
                         size_t size, size_t at) {
    if (input->file < 0)
        return oz_output_write(batch, output, (oz_bytes){input->data + from, size}, at);
    oz_status status = output->atomic.file < 0 ? open_file(batch, output) : OZ_OK;
    if (status) return status;
    output->used = 1;
#ifdef __linux__ /* the system copies, without bringing the bytes into this process */
    while (size) {
        off_t in = (off_t)from, out = (off_t)at;
        ssize_t done = copy_file_range(input->file, &in, output->atomic.file, &out, size, 0);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) break; /* not between these file systems, for example */
        from += done, at += (size_t)done, size -= (size_t)done;
    }
#endif
    oz_buffer buffer = {NULL, 0}; /* owned: freed below */
    while (size && !status) {
        oz_bytes piece = {NULL, size < PIECE ? size : PIECE};
        status = oz_input_read(input, from, (int64_t)piece.size, &buffer, &piece.data);
        if (!status) status = oz_output_write(batch, output, piece, at);
        from += (int64_t)piece.size, at += piece.size, size -= piece.size;
    }
    free(buffer.data);
    return status;
}

/* Erase the key and the directories that are empty then. */
static oz_status erase(const oz_batch *batch, const oz_row *row, char *key) {
    if (unlinkat(batch->directory, key, 0) != 0)
        return errno != ENOENT && errno != ENOTDIR ? OZ_SYSTEM : OZ_OK;
    if (batch->sync && sync_parents(batch, key)) return OZ_SYSTEM;
    if (oz_row_key(batch, row, key) == OZ_OK) oz_remove_empty_parents(batch->directory, key);
    return OZ_OK;
}

oz_status oz_output_finish(oz_batch *batch, oz_output *output, oz_status status) {
    char key[PATH_MAX];
    if (batch->stored) return status;
    if (oz_row_key(batch, &output->row, key)) return OZ_SYSTEM;
    if (!output->used && !status) return erase(batch, &output->row, key);
    oz_atomic_file *atomic = &output->atomic;
    if (atomic->file < 0) return status ? status : OZ_SYSTEM;
    if (!status && batch->sync && fsync(atomic->file) != 0) status = OZ_SYSTEM;
    int unnamed = atomic->unnamed;
    status = oz_atomic_file_finish(atomic, batch->directory, key, status);
    if (unnamed && !atomic->unnamed) atomic_store(&batch->replacing, 1);
    return !status && batch->sync ? sync_parents(batch, key) : status;
}
