/* Buffers and compression contexts of one thread, reused from chunk to chunk. */
#ifndef OZ_WORKSPACE_H
#define OZ_WORKSPACE_H

#include "kernel.h"

typedef struct {
    unsigned char *data; /* owned: allocated by oz_buffer_reserve, freed with the workspace */
    size_t size;
} oz_buffer;

/* A context of a compression library, created by the codec that first needs it. */
typedef struct {
    void *data;                   /* owned: freed by `destroy` with the workspace; NULL: none */
    void (*destroy)(void *);      /* set with `data` */
    size_t (*size)(const void *); /* set with `data`; NULL: not counted */
} oz_context;

enum { OZ_BUFFERS = 11 };
enum {
    OZ_BLOSC_DECODER,
    OZ_ZSTD_DECODER,
    OZ_ZSTD_ENCODER,
    OZ_DEFLATE_DECODER,
    OZ_DEFLATE_ENCODER,
    OZ_CONTEXTS
};

/* Owned by the thread between oz_workspace_take and oz_workspace_give. */
typedef struct {
    union {
        struct {
            oz_buffer stored;  /* bytes as read; when encoding, the second encoded buffer */
            oz_buffer decoded; /* a decoded chunk, or part of one */
            oz_buffer between; /* between two codecs when decoding; when encoding, blocks of Blosc */
            oz_buffer encoded; /* with room for checksums */
            oz_buffer box;     /* the box around single elements */
            oz_buffer index;   /* of a shard */
            oz_buffer blosc_table, blosc_block, blosc_stream, blosc_filter, blosc_frame;
        };
        oz_buffer buffers[OZ_BUFFERS];
    };
    oz_context contexts[OZ_CONTEXTS];
    int deflate_level; /* of OZ_DEFLATE_ENCODER */
    int helpers;       /* threads that may be started to encode one chunk */
    long long bytes;   /* in all, while no thread uses it */
} oz_workspace;

/* Make a buffer at least `size` bytes large. Its old content is lost where it has to grow. */
oz_status oz_buffer_reserve(oz_buffer *buffer, size_t size);

/* Return a workspace for a thread, or NULL without memory; and give it back. */
oz_workspace *oz_workspace_take(void);
void oz_workspace_give(oz_workspace *workspace);

#endif
