/* Counts the calls that change files below a folder, and ends, stops or starves the process at one.

Preloaded (LD_PRELOAD) and controlled by crash_arm. Only calls that succeed are counted, after they
were made: point k is the moment after the k-th change. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <linux/fs.h>
#include <unistd.h>

enum { OFF, COUNT, EXIT, STOP, FULL };

static char top[PATH_MAX];
static size_t top_length;
static _Atomic long count;
static _Atomic int mode;
static long point;
static int log_file = -1;

/* Counts from 0 below a folder whose path has no links; `file` gets a line per call unless -1. */
void crash_arm(const char *folder, int what, long at, int file)
{
    mode = OFF;
    top_length = strlen(folder);
    memcpy(top, folder, top_length + 1);
    count = 0;
    point = at;
    log_file = file;
    mode = what;
}

long crash_count(void)
{
    return count;
}

static int is_below(const char *path)
{
    return !strncmp(path, top, top_length) && (path[top_length] == '/' || !path[top_length]);
}

static int file_path(int file, char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = 0;
    return length > 0;
}

/* Writes the whole path to `full`; returns 1 if it is below the folder. */
static int watched(int folder, const char *path, char *full)
{
    if (mode == OFF)
        return 0;
    full[0] = 0;
    if (!path)
        return file_path(folder, full) && is_below(full);
    int pinned, length = 0; /* a folder that is named by its descriptor */
    if (sscanf(path, "/proc/self/fd/%d%n", &pinned, &length) == 1) {
        if (!file_path(pinned, full))
            return 0;
        path += length;
    } else if (path[0] != '/') {
        if (folder == AT_FDCWD ? !getcwd(full, PATH_MAX) : !file_path(folder, full))
            return 0;
        strncat(full, "/", PATH_MAX - strlen(full) - 1);
    }
    strncat(full, path, PATH_MAX - strlen(full) - 1);
    return is_below(full);
}

/* Returns 1, and sets errno, if the disk is full for a call that needs room. */
static int refused(int below)
{
    if (!below || mode != FULL || count + 1 < point)
        return 0;
    errno = ENOSPC;
    return 1;
}

static void done(int below, long result, const char *name, const char *path)
{
    if (!below || result < 0)
        return;
    int error = errno;
    long number = ++count;
    if (log_file >= 0) {
        char line[PATH_MAX + 64];
        int length = snprintf(line, sizeof line, "%ld %s %s\n", number, name, path + top_length);
        syscall(SYS_write, log_file, line, (size_t)length);
    }
    if (number == point && mode == EXIT)
        _exit(77);
    if (number == point && mode == STOP)
        kill(getpid(), SIGSTOP);
    errno = error;
}

/* Defines a function that calls the real one; FULL_FAILS: it needs room. */
#define WRAP(type, name, parameters, arguments, folder, path, room)                               \
    type name parameters                                                                          \
    {                                                                                             \
        static type(*real) parameters;                                                            \
        if (!real)                                                                                \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                            \
        char full[PATH_MAX];                                                                      \
        int below = watched(folder, path, full);                                                  \
        if ((room) && refused(below))                                                             \
            return -1;                                                                            \
        type result = real arguments;                                                             \
        done(below, (long)result, #name, full);                                                   \
        return result;                                                                            \
    }

#define WRAP_OPEN(name, parameters, arguments, folder)                                            \
    int name parameters                                                                           \
    {                                                                                             \
        static int(*real) parameters;                                                             \
        if (!real)                                                                                \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                            \
        int bits = 0;                                                                             \
        if (flags & (O_CREAT | __O_TMPFILE)) {                                                    \
            va_list rest;                                                                         \
            va_start(rest, flags);                                                                \
            bits = va_arg(rest, int);                                                             \
            va_end(rest);                                                                         \
        }                                                                                         \
        char full[PATH_MAX];                                                                      \
        int changes = flags & (O_CREAT | O_TRUNC | __O_TMPFILE);                                  \
        int below = changes && watched(folder, path, full);                                       \
        if (below && (flags & (O_CREAT | __O_TMPFILE)) && refused(below))                         \
            return -1;                                                                            \
        int result = real arguments;                                                              \
        done(below, result, #name, full);                                                         \
        return result;                                                                            \
    }

WRAP_OPEN(open, (const char *path, int flags, ...), (path, flags, bits), AT_FDCWD)
WRAP_OPEN(open64, (const char *path, int flags, ...), (path, flags, bits), AT_FDCWD)
WRAP_OPEN(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, bits), folder)
WRAP_OPEN(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, bits), folder)
WRAP(int, creat, (const char *path, mode_t bits), (path, bits), AT_FDCWD, path, 1)
WRAP(int, creat64, (const char *path, mode_t bits), (path, bits), AT_FDCWD, path, 1)

#define DATA const void *data, size_t size
#define PARTS const struct iovec *parts, int number
WRAP(ssize_t, write, (int file, DATA), (file, data, size), file, NULL, 1)
WRAP(ssize_t, pwrite, (int file, DATA, off_t at), (file, data, size, at), file, NULL, 1)
WRAP(ssize_t, pwrite64, (int file, DATA, off64_t at), (file, data, size, at), file, NULL, 1)
WRAP(ssize_t, writev, (int file, PARTS), (file, parts, number), file, NULL, 1)
WRAP(ssize_t, pwritev, (int file, PARTS, off_t at), (file, parts, number, at), file, NULL, 1)
WRAP(ssize_t, pwritev64, (int file, PARTS, off64_t at), (file, parts, number, at), file, NULL, 1)
WRAP(ssize_t, pwritev2, (int file, PARTS, off_t at, int flags), (file, parts, number, at, flags), file, NULL, 1)
WRAP(ssize_t, copy_file_range, (int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags),
     (in, from, out, to, size, flags), out, NULL, 1)
WRAP(ssize_t, sendfile, (int out, int in, off_t *from, size_t size), (out, in, from, size), out, NULL, 1)
WRAP(ssize_t, sendfile64, (int out, int in, off64_t *from, size_t size), (out, in, from, size), out, NULL, 1)
WRAP(int, fallocate, (int file, int how, off_t at, off_t size), (file, how, at, size), file, NULL, 1)
WRAP(int, fallocate64, (int file, int how, off64_t at, off64_t size), (file, how, at, size), file, NULL, 1)
WRAP(int, truncate, (const char *path, off_t size), (path, size), AT_FDCWD, path, 0)
WRAP(int, truncate64, (const char *path, off64_t size), (path, size), AT_FDCWD, path, 0)
WRAP(int, ftruncate, (int file, off_t size), (file, size), file, NULL, 0)
WRAP(int, ftruncate64, (int file, off64_t size), (file, size), file, NULL, 0)
WRAP(int, fsync, (int file), (file), file, NULL, 0)
WRAP(int, fdatasync, (int file), (file), file, NULL, 0)

WRAP(int, rename, (const char *old, const char *new), (old, new), AT_FDCWD, new, 0)
WRAP(int, renameat, (int folder, const char *old, int other, const char *new), (folder, old, other, new), other, new, 0)
WRAP(int, renameat2, (int folder, const char *old, int other, const char *new, unsigned flags),
     (folder, old, other, new, flags), other, new, 0)
WRAP(int, link, (const char *old, const char *new), (old, new), AT_FDCWD, new, 1)
WRAP(int, linkat, (int folder, const char *old, int other, const char *new, int flags),
     (folder, old, other, new, flags), other, new, 1)
WRAP(int, symlink, (const char *to, const char *path), (to, path), AT_FDCWD, path, 1)
WRAP(int, symlinkat, (const char *to, int folder, const char *path), (to, folder, path), folder, path, 1)
WRAP(int, unlink, (const char *path), (path), AT_FDCWD, path, 0)
WRAP(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags), folder, path, 0)
WRAP(int, remove, (const char *path), (path), AT_FDCWD, path, 0)
WRAP(int, mkdir, (const char *path, mode_t bits), (path, bits), AT_FDCWD, path, 1)
WRAP(int, mkdirat, (int folder, const char *path, mode_t bits), (folder, path, bits), folder, path, 1)
WRAP(int, rmdir, (const char *path), (path), AT_FDCWD, path, 0)

int ioctl(int file, unsigned long request, ...)
{
    static int (*real)(int, unsigned long, ...);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "ioctl");
    va_list rest;
    va_start(rest, request);
    void *given = va_arg(rest, void *);
    va_end(rest);
    char full[PATH_MAX];
    int below = (request == FICLONE || request == FICLONERANGE) && watched(file, NULL, full);
    if (refused(below))
        return -1;
    int result = real(file, request, given);
    done(below, result, "ioctl", full);
    return result;
}
