#include "codecs/threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct oz_threads {
    void (*run)(void *);
    void *argument; /* borrowed from the caller until it has joined the threads */
    pthread_mutex_t lock;
    pthread_cond_t idle;
    int users;   /* the caller and the threads: the last one frees this */
    int running; /* threads in `run` */
    int is_over; /* none may begin any more */
};

static void leave(oz_threads *threads) {
    int left = --threads->users;
    pthread_mutex_unlock(&threads->lock);
    if (left) return;
    pthread_cond_destroy(&threads->idle);
    pthread_mutex_destroy(&threads->lock);
    free(threads);
}

static void *thread_main(void *argument) {
    oz_threads *threads = argument;
    pthread_mutex_lock(&threads->lock);
    if (!threads->is_over) {
        threads->running++;
        pthread_mutex_unlock(&threads->lock);
        threads->run(threads->argument);
        pthread_mutex_lock(&threads->lock);
        if (--threads->running == 0) pthread_cond_signal(&threads->idle);
    }
    leave(threads);
    return NULL;
}

oz_threads *oz_threads_start(int count, void (*run)(void *), void *argument) {
    sigset_t all, before;
    pthread_attr_t detached;
    oz_threads *threads = count < 1 ? NULL : calloc(1, sizeof *threads); /* owned: see `users` */
    if (!threads) return NULL;
    threads->run = run, threads->argument = argument, threads->users = 1;
    pthread_mutex_init(&threads->lock, NULL);
    pthread_cond_init(&threads->idle, NULL);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 0; i < count && i < OZ_MAX_THREADS; i++) {
        pthread_t started;
        pthread_mutex_lock(&threads->lock);
        threads->users++;
        pthread_mutex_unlock(&threads->lock);
        if (pthread_create(&started, &detached, thread_main, threads) == 0) continue;
        pthread_mutex_lock(&threads->lock);
        threads->users--;
        pthread_mutex_unlock(&threads->lock);
        break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    return threads;
}

void oz_threads_join(oz_threads *threads) {
    if (!threads) return;
    pthread_mutex_lock(&threads->lock);
    threads->is_over = 1;
    while (threads->running) pthread_cond_wait(&threads->idle, &threads->lock);
    leave(threads);
}
