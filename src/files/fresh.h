/* A file that gets its name when it is complete: readers, and a crash, see the old value of a key
 * or the new one, never a part. Keys are relative to an open directory. */
#ifndef OMNIZARR_FRESH_H
#define OMNIZARR_FRESH_H

typedef struct {
    int file;    /* -1: not open */
    int unnamed; /* in no folder yet: a step less for a key that is not there */
    int only_new; /* set after opening: fails with EEXIST where the key is there */
    unsigned long serial;
} fresh_t;

/* `replaces`: whether the key is probably there. 0, or -1 with errno, which is ENOENT where the
 * key's folder is not there. */
int fresh_open(fresh_t *fresh, int directory, const char *key, int replaces);
/* Closes the file and gives it its name, or leaves nothing of it where `bad`. 0, or -1 with errno;
 * EAGAIN: write it again, this system cannot name such files. `unnamed` is 0 where the key was there. */
int fresh_finish(fresh_t *fresh, int directory, const char *key, int bad);
/* Creates the folders of a key; 0, or -1 with errno. */
int fresh_folders(int directory, char *key);
/* Removes the folders of a key that have nothing in them, the nearest first; cuts `key`. */
void fresh_remove_folders(int directory, char *key);

#endif
