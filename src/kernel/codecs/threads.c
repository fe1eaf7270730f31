#include "codecs/threads.h"

#include <signal.h>

void oz_threads_start(oz_threads *threads, int count, void *(*run)(void *), void *argument) {
    sigset_t all, before;
    threads->count = 0;
    if (count < 1) return;
    if (count > OZ_MAX_THREADS) count = OZ_MAX_THREADS;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; threads->count < count; threads->count++)
        if (pthread_create(&threads->started[threads->count], NULL, run, argument) != 0) break;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void oz_threads_join(oz_threads *threads) {
    for (int i = 0; i < threads->count; i++) pthread_join(threads->started[i], NULL);
}
