#define _GNU_SOURCE
#include "fresh.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The name that a file has until it is complete; with the process, one that no other writer has. */
static int partial_name(const fresh_t *fresh, const char *key, char *name) {
    int n = snprintf(name, PATH_MAX, "%s.__omnizarr_partial__%ld_%lx", key, (long)getpid(),
                     fresh->serial);
    if (n > 0 && n < PATH_MAX) return 0;
    errno = ENAMETOOLONG;
    return -1;
}

#ifdef O_TMPFILE
#define RENEWED 3 /* times that a folder is made again while a file in it is named */

static atomic_int cannot_name; /* neither by its descriptor nor through /proc */

static int folder_of(const char *key, char *folder) {
    const char *end = strrchr(key, '/');
    size_t size = end ? (size_t)(end - key) : 0;
    if (size >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(folder, key, size);
    if (!end) folder[size++] = '.';
    else if (size == 0) folder[size++] = '/';
    folder[size] = 0;
    return 0;
}

static int open_unnamed(int directory, const char *key) {
    char folder[PATH_MAX];
    if (atomic_load(&cannot_name) || folder_of(key, folder)) return -1;
    return openat(directory, folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
}

/* 0, or -1 with errno. Old systems let only the mighty do it by the descriptor alone. */
static int name_it(int file, int directory, const char *name) {
    char link[40];
    if (linkat(file, "", directory, name, AT_EMPTY_PATH) == 0) return 0;
    if (errno == EEXIST) return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    return linkat(AT_FDCWD, link, directory, name, AT_SYMLINK_FOLLOW);
}

/* Names a file by its partial name; 0, and then `unnamed` is 0, or -1 with errno. */
static int name_partial(fresh_t *fresh, int directory, const char *key) {
    char name[PATH_MAX];
    if (partial_name(fresh, key, name)) return -1;
    if (name_it(fresh->file, directory, name) != 0) {
        if (errno != EEXIST) return -1;
        unlinkat(directory, name, 0); /* of a process that ended in the midst of it */
        if (name_it(fresh->file, directory, name) != 0) return -1;
    }
    fresh->unnamed = 0;
    return 0;
}

/* Names a file by its key, or, where that is taken, by its partial name; then `unnamed` is 0. */
static int name_unnamed(fresh_t *fresh, int directory, const char *key) {
    char folder[PATH_MAX];
    if (folder_of(key, folder)) return -1;
    /* What some systems tell only when a file is closed, they tell now. */
    int other = dup(fresh->file);
    if (other < 0 || close(other) != 0) return -1;
    for (int i = 0; name_it(fresh->file, directory, key) != 0; i++) {
        if (errno == EEXIST && !fresh->only_new) return name_partial(fresh, directory, key);
        int error = errno;
        if (error == EEXIST || faccessat(directory, folder, W_OK, 0) != 0) return -1;
        /* Its folder may have been removed while it was empty, and made again since. */
        if (error == ENOENT && i < RENEWED) continue;
        /* Not for want of room: this system, or a rule of it, has no such links. */
        int full = error == ENOSPC || error == EDQUOT || error == EIO || error == ENAMETOOLONG;
        if (!full) atomic_store(&cannot_name, 1);
        errno = full ? error : EAGAIN;
        return -1;
    }
    return 0;
}
#endif

int fresh_open(fresh_t *fresh, int directory, const char *key, int replaces) {
    static atomic_ulong serial;
    char partial[PATH_MAX];
    fresh->serial = atomic_fetch_add(&serial, 1);
    fresh->unnamed = 0;
    fresh->only_new = 0;
    fresh->file = -1;
#ifdef O_TMPFILE
    if (!replaces) fresh->file = open_unnamed(directory, key);
    fresh->unnamed = fresh->file >= 0;
#endif
    if (fresh->file >= 0) return 0;
    if (partial_name(fresh, key, partial)) return -1;
    /* Nobody's link says what is overwritten. */
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    fresh->file = openat(directory, partial, flags, 0666);
    return fresh->file < 0 ? -1 : 0;
}

/* Gives a file its name in place of the partial one, which may be left; 0, or -1 with errno. */
static int rename_partial(const fresh_t *fresh, int directory, const char *partial,
                          const char *key) {
    if (fresh->only_new) {
        if (linkat(directory, partial, directory, key, 0) == 0) return 0;
        if (errno == EEXIST || faccessat(directory, key, F_OK, 0) == 0) {
            errno = EEXIST;
            return -1;
        } /* else this file system may have no links */
    }
    return renameat(directory, partial, directory, key);
}

int fresh_finish(fresh_t *fresh, int directory, const char *key, int bad) {
    char partial[PATH_MAX];
    int error = errno;
#ifdef O_TMPFILE
    if (!bad && fresh->unnamed && name_unnamed(fresh, directory, key)) bad = -1, error = errno;
#endif
    if (close(fresh->file) != 0 && !bad) bad = -1, error = errno;
    fresh->file = -1;
    if (!fresh->unnamed && partial_name(fresh, key, partial) == 0) {
        if (!bad && rename_partial(fresh, directory, partial, key) != 0) bad = -1, error = errno;
        if (bad || fresh->only_new) unlinkat(directory, partial, 0);
    }
    errno = error;
    return bad ? -1 : 0;
}

int fresh_folders(int directory, char *key) {
    for (char *p = strchr(key + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        int bad = mkdirat(directory, key, 0777) != 0 && errno != EEXIST;
        *p = '/';
        if (bad) return -1;
    }
    return 0;
}

void fresh_remove_folders(int directory, char *key) {
    for (char *end = strrchr(key, '/'); end && end != key; end = strrchr(key, '/')) {
        *end = 0;
        if (unlinkat(directory, key, AT_REMOVEDIR) != 0) return;
    }
}
