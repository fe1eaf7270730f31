#define _GNU_SOURCE /* O_TMPFILE, AT_EMPTY_PATH */
#include "atomic_file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/statfs.h>
#endif
#include <unistd.h>

/* The name of a file until it is complete. The process id and the serial number make it unique. */
static oz_status partial_name(const oz_atomic_file *atomic, const char *key, char *name) {
    int n = snprintf(name, PATH_MAX, "%s.__omnizarr_partial__%ld_%lx", key, (long)getpid(),
                     atomic->serial);
    return n > 0 && n < PATH_MAX ? OZ_OK : oz_system_error(ENAMETOOLONG);
}

/* Linux has files without a name, which leave nothing behind when a process is killed. Elsewhere,
 * and on file systems that do not have them, a partial file is written and renamed. */
#ifdef O_TMPFILE
#define MAX_ATTEMPTS 3 /* to name a file while others remove and create its directory */

/* Set once naming has failed both by descriptor and through /proc. */
static atomic_int cannot_name;

static oz_status parent_of(const char *key, char *parent) {
    const char *end = strrchr(key, '/');
    size_t size = end ? (size_t)(end - key) : 0;
    if (size >= PATH_MAX) return oz_system_error(ENAMETOOLONG);
    memcpy(parent, key, size);
    if (!end) parent[size++] = '.';
    else if (size == 0) parent[size++] = '/';
    parent[size] = 0;
    return OZ_OK;
}

/* Return a descriptor, or -1. */
static int open_unnamed(int directory, const char *key) {
    char parent[PATH_MAX];
    if (atomic_load(&cannot_name) || parent_of(key, parent)) return -1;
    return openat(directory, parent, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
}

/* Old kernels allow naming by descriptor only to privileged processes; /proc works for all. */
static oz_status link_unnamed(int file, int directory, const char *name) {
    char link[40];
    if (linkat(file, "", directory, name, AT_EMPTY_PATH) == 0) return OZ_OK;
    if (errno == EEXIST) return OZ_SYSTEM;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    return linkat(AT_FDCWD, link, directory, name, AT_SYMLINK_FOLLOW) == 0 ? OZ_OK : OZ_SYSTEM;
}

/* Give an unnamed file its partial name, so that it can replace the key by renaming. */
static oz_status link_as_partial(oz_atomic_file *atomic, int directory, const char *key) {
    char name[PATH_MAX];
    if (partial_name(atomic, key, name)) return OZ_SYSTEM;
    if (link_unnamed(atomic->file, directory, name)) {
        if (errno != EEXIST) return OZ_SYSTEM;
        unlinkat(directory, name, 0); /* left by a killed process with the same id */
        if (link_unnamed(atomic->file, directory, name)) return OZ_SYSTEM;
    }
    atomic->unnamed = 0;
    return OZ_OK;
}

/* Name an unnamed file by its key, or by its partial name where the key exists. */
static oz_status name_file(oz_atomic_file *atomic, int directory, const char *key) {
    char parent[PATH_MAX];
    if (parent_of(key, parent)) return OZ_SYSTEM;
    if (!atomic->local) { /* a failed write may be reported only when a descriptor is closed */
        int copy = dup(atomic->file);
        if (copy < 0 || close(copy) != 0) return OZ_SYSTEM;
    }
    for (int i = 0; link_unnamed(atomic->file, directory, key); i++) {
        if (errno == EEXIST && !atomic->only_new) return link_as_partial(atomic, directory, key);
        int error = errno;
        if (error == EEXIST || faccessat(directory, parent, W_OK, 0) != 0) return OZ_SYSTEM;
        /* Another writer may have removed the empty directory and created it again. */
        if (error == ENOENT && i < MAX_ATTEMPTS) continue;
        int full = error == ENOSPC || error == EDQUOT || error == EIO || error == ENAMETOOLONG;
        if (full) return oz_system_error(error);
        atomic_store(&cannot_name, 1); /* the system, or a security rule, does not allow it */
        errno = EAGAIN;
        return OZ_RETRY;
    }
    return OZ_OK;
}
#endif

oz_status oz_atomic_file_open(oz_atomic_file *atomic, int directory, const char *key,
                              int replaces) {
    static atomic_ulong serial;
    char partial[PATH_MAX];
    *atomic = (oz_atomic_file){.file = -1, .serial = atomic_fetch_add(&serial, 1)};
#ifdef O_TMPFILE
    if (!replaces) atomic->file = open_unnamed(directory, key);
    atomic->unnamed = atomic->file >= 0;
#else
    (void)replaces;
#endif
    if (atomic->file >= 0) return OZ_OK;
    if (partial_name(atomic, key, partial)) return OZ_SYSTEM;
    /* O_NOFOLLOW: a symbolic link must not choose the file that is overwritten. */
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    atomic->file = openat(directory, partial, flags, 0666);
    return atomic->file < 0 ? OZ_SYSTEM : OZ_OK;
}

/* Rename the partial file; with `only_new` it is linked, and the partial name may remain. */
static oz_status rename_partial(const oz_atomic_file *atomic, int directory, const char *partial,
                                const char *key) {
    if (atomic->only_new) {
        if (linkat(directory, partial, directory, key, 0) == 0) return OZ_OK;
        if (errno == EEXIST || faccessat(directory, key, F_OK, 0) == 0)
            return oz_system_error(EEXIST);
        /* else the file system may have no hard links */
    }
    return renameat(directory, partial, directory, key) == 0 ? OZ_OK : OZ_SYSTEM;
}

oz_status oz_atomic_file_finish(oz_atomic_file *atomic, int directory, const char *key,
                                oz_status status) {
    char partial[PATH_MAX];
    int error = errno; /* of the first failure */
#ifdef O_TMPFILE
    if (!status && atomic->unnamed) {
        status = name_file(atomic, directory, key);
        error = errno;
    }
#endif
    if (close(atomic->file) != 0 && !status) status = OZ_SYSTEM, error = errno;
    atomic->file = -1;
    if (!atomic->unnamed && partial_name(atomic, key, partial) == OZ_OK) {
        if (!status) {
            status = rename_partial(atomic, directory, partial, key);
            error = errno;
        }
        if (status || atomic->only_new) unlinkat(directory, partial, 0);
    }
    errno = error;
    return status;
}

int oz_is_local(int directory) {
#ifdef __linux__
    /* Numbers of linux/magic.h: ext2 to ext4, XFS, Btrfs and tmpfs. */
    static const unsigned long known[] = {0xef53, 0x58465342, 0x9123683e, 0x01021994};
    struct statfs info;
    if (fstatfs(directory, &info) != 0) return 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if ((unsigned long)info.f_type == known[i]) return 1;
#else
    (void)directory;
#endif
    return 0;
}

oz_status oz_make_parents(int directory, char *key) {
    for (char *p = strchr(key + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        int failed = mkdirat(directory, key, 0777) != 0 && errno != EEXIST;
        *p = '/';
        if (failed) return OZ_SYSTEM;
    }
    return OZ_OK;
}

void oz_remove_empty_parents(int directory, char *key) {
    for (char *end = strrchr(key, '/'); end && end != key; end = strrchr(key, '/')) {
        *end = 0;
        if (unlinkat(directory, key, AT_REMOVEDIR) != 0) return;
    }
}
