/* pipeline.c: see pipeline.h.
 * Layer: benchmarks. May include: <jit/jit.h>, <jit/cuda.h>. */
#include "sync_modes/pipeline.h"
#include "bench.h"

#include <pthread.h>
#include <stdlib.h>

static const unsigned least_steps = 8, fewest_steps = 2, first_steps = 3;
static const double longest_ns = 120e6; /* of a burst, where steps are fewer than least_steps */

typedef struct worker {
    sync_team *team;
    pthread_t thread;
    sync_lane lane;
    unsigned number;
    bool started, ready, good; /* ready: its lane is; good: the last burst was */
    double begin, end;         /* of the last burst */
} worker;

/* A burst is one round of threads through the job: they wait for its number to change. */
struct sync_team {
    const sync_gpu *gpu;
    unsigned count;
    worker workers[SYNC_MOST_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned job, busy; /* number of the job; workers that have not ended it */
    bool over;
    const sync_pipeline *pipeline; /* the job: */
    unsigned steps;
    pthread_barrier_t ready; /* its threads start together */
};

/* Wait for the next job; false: there is none. */
static bool next_job(sync_team *t, unsigned *seen) {
    pthread_mutex_lock(&t->lock);
    while (t->job == *seen && !t->over)
        pthread_cond_wait(&t->changed, &t->lock);
    *seen = t->job;
    bool more = !t->over;
    pthread_mutex_unlock(&t->lock);
    return more;
}

static void end_job(sync_team *t) {
    pthread_mutex_lock(&t->lock);
    if (--t->busy == 0)
        pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void run_job(worker *w) {
    sync_team *t = w->team;
    const sync_pipeline *p = t->pipeline;
    bool good = w->ready && sync_lane_prepare(&w->lane, t->steps);
    pthread_barrier_wait(&t->ready); /* also after a failure: the others wait */
    w->begin = bench_now();
    good = good && sync_lane_run(&w->lane, p->mode, p->work, t->steps);
    w->end = bench_now();
    w->good = good && sync_lane_count(&w->lane, t->steps);
}

static void *work(void *argument) {
    worker *w = argument;
    sync_team *t = w->team;
    unsigned seen = 0;
    w->ready = sync_lane_init(&w->lane, t->gpu, w->number);
    end_job(t);
    while (next_job(t, &seen))
        if (w->number < t->pipeline->threads) {
            run_job(w);
            end_job(t);
        }
    sync_lane_finish(&w->lane);
    return NULL;
}

static void wait_until_idle(sync_team *t) {
    pthread_mutex_lock(&t->lock);
    while (t->busy > 0)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

sync_team *sync_team_create(const sync_gpu *g, unsigned threads) {
    sync_team *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->gpu = g;
    t->count = t->busy = threads;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    bool good = true;
    for (unsigned i = 0; i < threads; ++i) {
        worker *w = &t->workers[i];
        w->team = t;
        w->number = i;
        w->started = pthread_create(&w->thread, NULL, work, w) == 0;
        if (!w->started)
            end_job(t);
    }
    wait_until_idle(t);
    for (unsigned i = 0; i < threads; ++i)
        good = good && t->workers[i].started && t->workers[i].ready;
    if (good)
        return t;
    fprintf(stderr, "The threads of the pipeline could not be started\n");
    sync_team_destroy(t);
    return NULL;
}

void sync_team_destroy(sync_team *t) {
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->over = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    for (unsigned i = 0; i < t->count; ++i)
        if (t->workers[i].started)
            pthread_join(t->workers[i].thread, NULL);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* Nanoseconds from the first thread's start to the last one's end; negative on failure. */
static double run_burst(sync_pipeline *p, unsigned steps) {
    sync_team *t = p->team;
    if (pthread_barrier_init(&t->ready, NULL, p->threads) != 0)
        return -1;
    pthread_mutex_lock(&t->lock);
    t->pipeline = p;
    t->steps = steps;
    t->busy = p->threads;
    t->job += 1;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    wait_until_idle(t);
    pthread_barrier_destroy(&t->ready);
    double begin = t->workers[0].begin, end = t->workers[0].end;
    bool good = true;
    for (unsigned i = 0; i < p->threads; ++i) {
        const worker *w = &t->workers[i];
        good = good && w->good;
        begin = w->begin < begin ? w->begin : begin;
        end = w->end > end ? w->end : end;
    }
    return good ? end - begin : -1;
}

/* As many steps as fill the time, but neither so many that the driver's queues fill, nor so few
 * that nothing overlaps. `each`: nanoseconds of one step of every thread. */
static void choose_steps(sync_pipeline *p, double each) {
    double wanted = p->fill_ns / each, few = longest_ns / each;
    unsigned least = few < fewest_steps  ? fewest_steps
                     : few < least_steps ? (unsigned) few
                                         : least_steps;
    p->steps = wanted<least ? least : wanted>(double) SYNC_MOST_STEPS ? SYNC_MOST_STEPS
                                                                      : (unsigned) wanted;
    wanted = p->fill_ns / (each * p->steps);
    p->bursts = wanted < 1 ? 1 : (unsigned) wanted;
}

static void add_tallies(sync_pipeline *p) {
    for (unsigned i = 0; i < p->threads; ++i) {
        sync_tally *of = &p->team->workers[i].lane.tally;
        p->tally.steps += of->steps;
        p->tally.stale += of->stale;
        p->tally.held += of->held;
        p->tally.cpu += of->cpu;
        *of = (sync_tally) {0};
    }
}

static double sample(sync_pipeline *p) {
    double total = 0;
    if (p->steps == 0) {
        double ns = run_burst(p, 1); /* compiles */
        ns = ns < 0 ? ns : run_burst(p, first_steps);
        if (ns < 0)
            return ns;
        choose_steps(p, ns / first_steps);
        add_tallies(p);
        p->tally = (sync_tally) {0};
    }
    for (unsigned i = 0; i < p->bursts; ++i) {
        double ns = run_burst(p, p->steps);
        if (ns < 0)
            return ns;
        total += ns;
    }
    add_tallies(p);
    return total / p->bursts / p->steps / p->threads;
}

double sync_pipeline_sample(void *pipeline) {
    sync_pipeline *p = pipeline;
    unsigned (*races)(void) = p->team->gpu->driver->races;
    unsigned before = races ? races() : 0;
    double ns = sample(p);
    p->races += races ? races() - before : 0;
    return ns;
}

void sync_pipeline_describe(void *pipeline, FILE *json) {
    const sync_pipeline *p = pipeline;
    const sync_tally *t = &p->tally;
    double steps = t->steps > 0 ? t->steps : 1;
    fprintf(json,
            ", \"steps\": %.0f, \"stale\": %.0f, \"held_ns\": %.6g, \"cpu_ns\": %.6g, "
            "\"steps_in_a_burst\": %u",
            t->steps, t->stale, t->held / steps, t->cpu / steps, p->steps);
}
