#include "core/sync.h"
#include <signal.h>
#include <unistd.h>

atomic_uint jitc_fork_generation = 1;

bool jitc_thread_start(pthread_t *thread, void *(*function)(void *), void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread, NULL, function, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

int jitc_usable_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than the set has room for */
    return online > 0 ? (int) online : 1;
}
