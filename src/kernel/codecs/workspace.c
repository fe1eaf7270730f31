/* Workspaces are kept from one batch to the next: new memory is slow, because the system clears it,
 * and so are new compression contexts. */
#include "codecs/workspace.h"

#include <stdatomic.h>
#include <stdlib.h>

#define SLOTS 16
#define MAX_KEPT ((long long)48 << 20) /* bytes in all */

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER
#endif

/* Owned by this file until a thread takes them; never freed at the end of the process. */
static _Atomic(oz_workspace *) kept[SLOTS];
static atomic_llong kept_bytes;

oz_status oz_buffer_reserve(oz_buffer *buffer, size_t size) {
    if (buffer->size >= size) return OZ_OK;
    free(buffer->data);
    buffer->data = malloc(size);
    buffer->size = buffer->data ? size : 0;
    return buffer->data ? OZ_OK : OZ_NO_MEMORY;
}

static long long bytes_of(const oz_workspace *workspace) {
    size_t total = 0;
    for (int i = 0; i < OZ_BUFFERS; i++) total += workspace->buffers[i].size;
    for (int i = 0; i < OZ_CONTEXTS; i++) {
        const oz_context *context = &workspace->contexts[i];
        if (context->data && context->size) total += context->size(context->data);
    }
    return (long long)total;
}

static void destroy(oz_workspace *workspace) {
    for (int i = 0; i < OZ_BUFFERS; i++) free(workspace->buffers[i].data);
    for (int i = 0; i < OZ_CONTEXTS; i++) {
        oz_context *context = &workspace->contexts[i];
        if (context->data) context->destroy(context->data);
    }
    free(workspace);
}

oz_workspace *oz_workspace_take(void) {
    for (int i = 0; i < SLOTS; i++) {
        oz_workspace *found = atomic_exchange(&kept[i], NULL);
        if (!found) continue;
        atomic_fetch_sub(&kept_bytes, found->bytes);
        return found;
    }
    return calloc(1, sizeof(oz_workspace));
}

void oz_workspace_give(oz_workspace *workspace) {
    workspace->bytes = bytes_of(workspace);
#ifdef ADDRESS_SANITIZER
    workspace->bytes = MAX_KEPT + 1; /* buffers larger than requested would hide overruns */
#endif
    if (atomic_fetch_add(&kept_bytes, workspace->bytes) + workspace->bytes <= MAX_KEPT)
        for (int i = 0; i < SLOTS; i++) {
            oz_workspace *none = NULL;
            if (atomic_compare_exchange_strong(&kept[i], &none, workspace)) return;
        }
    atomic_fetch_sub(&kept_bytes, workspace->bytes);
    destroy(workspace);
}
