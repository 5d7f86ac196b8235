#include "core/sync.h"
#include <signal.h>

bool jitc_thread_start(pthread_t *thread, void *(*function)(void *), void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread, NULL, function, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}
