#define _GNU_SOURCE /* copy_file_range */
#include "copy_file.h"

#include "atomic_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALL ((off_t)1 << 16)  /* bytes that one call reads and one writes */
#define BUFFER ((size_t)1 << 20) /* where the system cannot copy by itself */
#define MAX_COPY ((size_t)1 << 30)

static oz_status write_all(int file, const char *data, ssize_t size) {
    while (size > 0) {
        ssize_t done = write(file, data, (size_t)size);
        if (done < 0 && errno != EINTR) return OZ_SYSTEM;
        if (done > 0) data += done, size -= done;
    }
    return OZ_OK;
}

/* Read and write through a buffer of `capacity` bytes, up to the end of the source. */
static oz_status copy_by_buffer(int source, int target, char *buffer, size_t capacity,
                                off_t *copied) {
    for (;;) {
        ssize_t got = read(source, buffer, capacity);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return OZ_SYSTEM;
        if (got == 0) return OZ_OK;
        if (write_all(target, buffer, got)) return OZ_SYSTEM;
        *copied += got;
        if ((size_t)got < capacity) return OZ_OK; /* of a regular file, only its end is short */
    }
}

static oz_status copy_large(int source, int target, off_t *copied) {
#ifdef __linux__
    /* The system shares blocks where the file system can, and copies in the kernel elsewhere. */
    for (;;) {
        ssize_t done = copy_file_range(source, NULL, target, NULL, MAX_COPY, 0);
        if (done > 0) *copied += done;
        else if (done == 0 && *copied) return OZ_OK;
        else if (done < 0 && errno == EINTR) continue;
        else if (*copied) return OZ_SYSTEM;
        else break; /* not between these two files, which the buffer can do or says why not */
    }
#endif
    char *buffer = malloc(BUFFER); /* owned by this call */
    if (!buffer) return OZ_NO_MEMORY;
    oz_status status = copy_by_buffer(source, target, buffer, BUFFER, copied);
    int error = errno;
    free(buffer);
    errno = error;
    return status;
}

static oz_status copy_content(int source, int target, off_t size, off_t *copied) {
    char buffer[SMALL];
    if (size > SMALL) return copy_large(source, target, copied);
    return copy_by_buffer(source, target, buffer, sizeof buffer, copied);
}

static oz_status open_target(oz_atomic_file *atomic, int target, char *name, int fresh) {
    int replaces = !fresh && faccessat(target, name, F_OK, 0) == 0;
    oz_status status = oz_atomic_file_open(atomic, target, name, replaces);
    if (!status || errno != ENOENT) return status;
    if (oz_make_parents(target, name)) return OZ_SYSTEM;
    return oz_atomic_file_open(atomic, target, name, 0);
}

/* Copy an open file whose status is `info`. */
static oz_status copy_open(int source, const struct stat *info, int target, char *name, int fresh,
                           off_t *copied) {
    oz_atomic_file atomic;
    oz_status status = open_target(&atomic, target, name, fresh);
    if (status) return status;
    status = copy_content(source, atomic.file, info->st_size, copied);
    if (!status && *copied != info->st_size) status = OZ_UNSUPPORTED;
#ifdef __APPLE__
    struct timespec times[2] = {info->st_atimespec, info->st_mtimespec};
#else
    struct timespec times[2] = {info->st_atim, info->st_mtim};
#endif
    if (!status && futimens(atomic.file, times) != 0) status = OZ_SYSTEM;
    return oz_atomic_file_finish(&atomic, target, name, status);
}

oz_status oz_copy_file(int source, int target, char *name, int fresh, long long *total) {
    struct stat info;
    off_t copied = 0;
    /* Without O_NONBLOCK, opening a named pipe would wait for a writer. */
    int file = openat(source, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return OZ_SYSTEM;
    oz_status status = fstat(file, &info) < 0 ? OZ_SYSTEM : OZ_OK;
    if (!status && !S_ISREG(info.st_mode)) status = OZ_UNSUPPORTED;
    if (!status) status = copy_open(file, &info, target, name, fresh, &copied);
    int error = errno;
    close(file);
    errno = error;
    if (!status) *total += copied;
    return status;
}
