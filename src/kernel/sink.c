/* Where a chunk or a shard is written to: a file that gets its name at the end, so that readers see
 * the old value or the new one, or memory. */
#define _GNU_SOURCE
#include "rows.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE ((size_t)1 << 20)
#define ATTEMPTS 8 /* to open a file in a folder; then the reference engine tries */

static int open_sink(const batch_t *b, sink_t *sink) {
    char key[PATH_MAX];
    int replaces = !sink->row.whole || atomic_load(&b->replacing);
    if (row_key(b, &sink->row, key)) return -1;
    for (int i = 0; i < ATTEMPTS; i++) { /* others may remove a folder while it is empty */
        if (fresh_open(&sink->fresh, b->directory, key, replaces) == 0) return 0;
        if (errno != ENOENT || (fresh_folders(b->directory, key) && errno != ENOENT)) return -1;
    }
    return -1;
}

/* Has the system store the names in the folders on the way to a key, the nearest first. */
static int sync_folders(const batch_t *b, char *key) {
    for (char *end = strrchr(key, '/'); end; end = strrchr(key, '/')) {
        *end = 0;
        int folder = openat(b->directory, key, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (folder < 0) return -1;
        int bad = fsync(folder);
        close(folder);
        if (bad) return -1;
    }
    return fsync(b->directory);
}

static int to_memory(value_t *value, const unsigned char *data, size_t size, size_t at) {
    size_t end = at + size;
    if (end > value->room) {
        size_t room = value->room ? 2 * end : end; /* a chunk comes at once */
        unsigned char *more = realloc(value->own, room);
        if (!more) return -1;
        value->own = more, value->room = room;
    }
    memcpy(value->own + at, data, size);
    if (end > value->size) value->size = end;
    return 0;
}

void sink_start(sink_t *sink, const row_t *row, int64_t number) {
    sink->row = *row, sink->number = number, sink->fresh.file = -1, sink->used = 0;
}

int sink_write(const batch_t *b, sink_t *sink, const unsigned char *data, size_t size, size_t at) {
    sink->used = 1;
    if (b->stored) return to_memory(&b->stored[sink->number], data, size, at);
    if (sink->fresh.file < 0 && open_sink(b, sink)) return -1;
    while (size) {
        ssize_t done = pwrite(sink->fresh.file, data, size, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return -1;
        data += done, size -= (size_t)done, at += (size_t)done;
    }
    return 0;
}

/* From file to file the system copies, which need not bring the bytes here; what it cannot copy
 * comes in pieces. */
int sink_copy(const batch_t *b, sink_t *sink, source_t *source, int64_t from, size_t size,
              size_t at) {
    if (source->file < 0) return sink_write(b, sink, source->data + from, size, at);
    if (sink->fresh.file < 0 && open_sink(b, sink)) return -1;
    sink->used = 1;
#ifdef __linux__
    while (size) {
        off_t in = (off_t)from, out = (off_t)at;
        ssize_t done = copy_file_range(source->file, &in, sink->fresh.file, &out, size, 0);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) break;
        from += done, at += (size_t)done, size -= (size_t)done;
    }
#endif
    buffer_t piece = {NULL, 0};
    int bad = 0;
    while (size && !bad) {
        const unsigned char *data;
        size_t some = size < PIECE ? size : PIECE;
        bad = fetch(source, from, (int64_t)some, &piece, &data);
        if (!bad) bad = sink_write(b, sink, data, some, at);
        from += (int64_t)some, at += some, size -= some;
    }
    free(piece.data);
    return bad;
}

int sink_finish(batch_t *b, sink_t *sink, int bad) {
    char key[PATH_MAX];
    if (b->stored) return bad;
    if (row_key(b, &sink->row, key)) return -1;
    if (!sink->used && !bad) {
        if (unlinkat(b->directory, key, 0) != 0) return errno != ENOENT && errno != ENOTDIR ? -1 : 0;
        if (b->sync && sync_folders(b, key)) return -1;
        if (row_key(b, &sink->row, key) == 0) fresh_remove_folders(b->directory, key);
        return 0;
    }
    if (sink->fresh.file < 0) return -1;
    if (!bad && b->sync && fsync(sink->fresh.file) != 0) bad = -1;
    int unnamed = sink->fresh.unnamed;
    bad = fresh_finish(&sink->fresh, b->directory, key, bad);
    if (unnamed && !sink->fresh.unnamed) atomic_store(&b->replacing, 1);
    return !bad && b->sync ? sync_folders(b, key) : bad;
}
