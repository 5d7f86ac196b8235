#include "cuda/copiers.h"
#include <string.h>

/* False if nothing is to be done. The lock is open while it copies. */
static bool copy_one_locked(jitc_cuda_copiers *c) REQUIRES(&c->lock) {
    if (c->taken == c->posted)
        return false;
    jitc_cuda_piece *p = &c->piece[c->taken++ % JITC_CUDA_AHEAD];
    jitc_mutex_unlock(&c->lock);
    memcpy(p->to, p->from, p->bytes);
    jitc_mutex_lock(&c->lock);
    p->copied = true;
    pthread_cond_signal(&c->copied_one);
    return true;
}

static void *run(void *context) {
    jitc_cuda_copiers *c = context;
    jitc_mutex_lock(&c->lock);
    while (copy_one_locked(c) || !c->ending)
        if (c->taken == c->posted && !c->ending)
            jitc_cond_wait(&c->posted_one, &c->lock);
    jitc_mutex_unlock(&c->lock);
    return NULL;
}

void jitc_cuda_copiers_start(jitc_cuda_copiers *c, unsigned threads) {
    *c = (jitc_cuda_copiers) {0};
    jitc_mutex_init(&c->lock);
    pthread_cond_init(&c->posted_one, NULL);
    pthread_cond_init(&c->copied_one, NULL);
    while (c->threads + 1 < threads && c->threads < JITC_CUDA_COPIERS - 1 &&
           jitc_thread_start(&c->thread[c->threads], run, c))
        ++c->threads;
}

void jitc_cuda_copiers_post(jitc_cuda_copiers *c, void *to, const void *from, size_t bytes) {
    jitc_mutex_lock(&c->lock);
    c->piece[c->posted++ % JITC_CUDA_AHEAD] = (jitc_cuda_piece) {to, from, bytes, false};
    pthread_cond_signal(&c->posted_one);
    jitc_mutex_unlock(&c->lock);
}

void jitc_cuda_copiers_wait(jitc_cuda_copiers *c, size_t n) {
    jitc_mutex_lock(&c->lock);
    while (!c->piece[n % JITC_CUDA_AHEAD].copied)
        if (!copy_one_locked(c))
            jitc_cond_wait(&c->copied_one, &c->lock);
    jitc_mutex_unlock(&c->lock);
}

void jitc_cuda_copiers_end(jitc_cuda_copiers *c) {
    jitc_mutex_lock(&c->lock);
    while (copy_one_locked(c)) {
    }
    c->ending = true;
    pthread_cond_broadcast(&c->posted_one);
    jitc_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->threads; ++i)
        pthread_join(c->thread[i], NULL);
    pthread_cond_destroy(&c->posted_one);
    pthread_cond_destroy(&c->copied_one);
    jitc_mutex_finish(&c->lock);
}
