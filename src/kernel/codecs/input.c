#include "codecs/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __APPLE__
#define MODIFIED st_mtimespec
#else
#define MODIFIED st_mtim
#endif

/* Mix what identifies the state of a file into one number; never OZ_IDENTITY_MISSING. */
static uint64_t identity_of(const struct stat *info) {
    uint64_t parts[] = {(uint64_t)info->st_dev, (uint64_t)info->st_ino, (uint64_t)info->st_size,
                        (uint64_t)info->MODIFIED.tv_sec, (uint64_t)info->MODIFIED.tv_nsec};
    uint64_t mixed = 0;
    for (int i = 0; i < 5; i++) {
        mixed = (mixed ^ parts[i]) * 0x9e3779b97f4a7c15u;
        mixed ^= mixed >> 29;
    }
    return mixed | 2;
}

uint64_t oz_path_identity(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 ? identity_of(&info) : OZ_IDENTITY_MISSING;
}

oz_status oz_input_open(oz_input *input, int directory, const char *key) {
    struct stat info;
    *input = (oz_input){.file = -1, .identity = OZ_IDENTITY_MISSING};
    /* Without O_NONBLOCK, opening a named pipe would wait for a writer. */
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    input->file = openat(directory, key, flags | O_NOFOLLOW);
    if (input->file < 0 && errno == ELOOP) { /* a link that leads nowhere is not a missing key */
        input->file = openat(directory, key, flags);
        if (input->file < 0 && errno == ENOENT) return OZ_UNSUPPORTED;
    }
    if (input->file < 0) return errno == ENOENT || errno == ENOTDIR ? OZ_MISSING : OZ_SYSTEM;
    if (fstat(input->file, &info) != 0) return OZ_SYSTEM;
    if (S_ISDIR(info.st_mode)) return OZ_MISSING;
    if (!S_ISREG(info.st_mode)) return OZ_UNSUPPORTED;
    input->size = info.st_size;
    input->identity = identity_of(&info);
    return OZ_OK;
}

void oz_input_close(oz_input *input) {
    int error = errno;
    if (input->file >= 0) close(input->file);
    input->file = -1;
    errno = error;
}

oz_status oz_read_at(int file, unsigned char *to, size_t size, int64_t from) {
    while (size) {
        ssize_t got = pread(file, to, size, (off_t)from);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return OZ_SYSTEM;
        if (got == 0) return OZ_INVALID;
        to += got, from += got, size -= (size_t)got;
    }
    return OZ_OK;
}

oz_status oz_input_read(oz_input *input, int64_t from, int64_t size, oz_buffer *buffer,
                        const unsigned char **data) {
    if (from < 0 || size < 0 || from > input->size || size > input->size - from) return OZ_INVALID;
    if (input->file < 0) {
        *data = input->data + from;
        return OZ_OK;
    }
    oz_status status = oz_buffer_reserve(buffer, size ? (size_t)size : 1);
    if (status) return status;
    *data = buffer->data;
    return oz_read_at(input->file, buffer->data, (size_t)size, from);
}
