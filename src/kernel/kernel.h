/* The compiled kernel: reads and writes batches of chunks without the GIL.
 *
 * Nothing here trusts stored data or arguments: every size, offset and count is checked before it
 * is used. Rows that the kernel does not support or finds invalid are reported by number; the
 * reference engine repeats those and raises the error, so both engines raise the same ones.
 *
 * Layers, top to bottom. A file includes headers of its own layer and of those below, never of one
 * above (tests/architecture/test_c_sources.py checks it):
 *
 *   python/   module, plan, pipeline_object, result_memory: Python arguments and objects
 *   chunks/   batch: threads that share the rows; read, write, shards: one chunk or shard each
 *   rows/     rows: keys and boxes of a batch; box, segments, elements: copies between chunk and
 *             array; output: values that are written; shard_index
 *   codecs/   pipeline: the codecs of a chunk in order; one file for each codec;
 *             input: stored bytes; workspace: buffers of a thread; threads: help for one call
 *   ../files  atomic_file
 *   ../include  status, bytes
 *
 * Ownership is written where a pointer is declared: "owned" names who frees it, "borrowed" who
 * keeps it alive. Functions that return a status are done if and only if it is OZ_OK.
 */
#ifndef OZ_KERNEL_H
#define OZ_KERNEL_H

#include "status.h"

#include <stddef.h>
#include <stdint.h>

#define OZ_MAX_AXES 32
#define OZ_MAX_STEPS 4   /* codecs of a pipeline */
#define OZ_MAX_ITEM 1024 /* bytes of an element */

/* Bytes that someone else keeps alive. */
typedef struct {
    const unsigned char *data; /* borrowed */
    size_t size;
} oz_bytes;

#endif
