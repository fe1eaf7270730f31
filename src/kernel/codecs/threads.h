/* Threads that help one call. */
#ifndef OZ_THREADS_H
#define OZ_THREADS_H

#include <pthread.h>

#define OZ_MAX_THREADS 64

typedef struct {
    pthread_t started[OZ_MAX_THREADS];
    int count;
} oz_threads;

/* Start up to `count` threads. They block all signals: those are left to Python's own threads. */
void oz_threads_start(oz_threads *threads, int count, void *(*run)(void *), void *argument);
void oz_threads_join(oz_threads *threads);

#endif
