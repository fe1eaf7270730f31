/* Threads that help one call. */
#ifndef OZ_THREADS_H
#define OZ_THREADS_H

#define OZ_MAX_THREADS 64

typedef struct oz_threads oz_threads;

/* Start up to `count` threads; return NULL where there are none. They block all signals: those are
 * left to Python's own threads. */
oz_threads *oz_threads_start(int count, void (*run)(void *), void *argument);

/* Wait for the threads that are in `run`. Others never begin: on a busy machine a thread may take
 * longer to start than all of the work. */
void oz_threads_join(oz_threads *threads);

#endif
