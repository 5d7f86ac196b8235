/* python_peer.c: the parent's side of peer.py and cuda_peers.py.
 * Layer: benchmarks. May include: nothing of the library. */
#include "peers/python_peer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct python_peer {
    pid_t child;
    FILE *to, *from;
};

void python_peer_path(char *text, size_t size) {
    const char *python = getenv("BENCH_PYTHON"), *venv = getenv("BENCH_PEERS");
    if (python)
        snprintf(text, size, "%s", python);
    else
        snprintf(text, size, "%s/bin/python", venv ? venv : ".");
}

static void run_child(const char *name, const char *library, int threads, const int *to,
                      const int *from) {
    char python[4096], script[4096], count[16];
    const char *folder = getenv("BENCH_SOURCE");
    python_peer_path(python, sizeof python);
    snprintf(script, sizeof script, "%s/peers/%s", folder ? folder : "benchmarks", name);
    snprintf(count, sizeof count, "%d", threads);
    setenv("OMP_NUM_THREADS", count, 1);
    setenv("OPENBLAS_NUM_THREADS", count, 1);
    if (dup2(to[0], STDIN_FILENO) >= 0 && dup2(from[1], STDOUT_FILENO) >= 0)
        execlp(python, python, script, library, count, (char *) NULL);
    _exit(127);
}

static bool says_ready(python_peer *peer) {
    char line[64];
    return peer->to && peer->from && fgets(line, sizeof line, peer->from) &&
           !strcmp(line, "ready\n");
}

python_peer *python_peer_create(const char *script, const char *library, int threads) {
    int to[2], from[2];
    python_peer *peer = calloc(1, sizeof *peer);
    /* Closed in children: a peer ends when its input does, which another one must not hold open. */
    if (!peer || pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
        free(peer);
        return NULL;
    }
    peer->child = fork();
    if (peer->child == 0)
        run_child(script, library, threads, to, from);
    close(to[0]);
    close(from[1]);
    peer->to = fdopen(to[1], "w");
    peer->from = fdopen(from[0], "r");
    if (peer->child > 0 && says_ready(peer))
        return peer;
    python_peer_destroy(peer);
    return NULL;
}

void python_peer_destroy(python_peer *peer) {
    if (!peer)
        return;
    /* The child ends when its input does. */
    if (peer->to)
        fclose(peer->to);
    if (peer->from)
        fclose(peer->from);
    if (peer->child > 0)
        waitpid(peer->child, NULL, 0);
    free(peer);
}

/* What the child answers to the line that has been written; negative: it has ended. */
static double answer(python_peer *peer) {
    char line[128];
    if (fflush(peer->to) != 0 || !fgets(line, sizeof line, peer->from))
        return -1;
    return strtod(line, NULL);
}

static bool has(python_peer *peer, const char *work) {
    fprintf(peer->to, "has %s\n", work);
    return answer(peer) > 0;
}

double python_peer_sample(void *work) {
    const python_work *w = work;
    fprintf(w->peer->to, "%s %zu\n", w->name, w->n);
    return answer(w->peer);
}

static double sample_element(void *work) {
    return python_peer_sample(work) / (double) ((python_work *) work)->n;
}

void python_peers_start(python_peers *p, size_t count, const char *const *names, int threads) {
    *p = (python_peers) {.count = count, .names = names};
    for (size_t i = 0; i < count; ++i)
        p->peer[i] = python_peer_create("peer.py", names[i], threads);
}

void python_peers_add(python_peers *p, bench_row *row, const char *work, size_t n) {
    for (size_t i = 0; i < p->count; ++i) {
        p->work[i] = (python_work) {p->peer[i], work, n};
        if (p->peer[i] && has(p->peer[i], work))
            bench_row_add(row, p->names[i], sample_element, &p->work[i]);
    }
}

void python_peers_stop(python_peers *p) {
    for (size_t i = 0; i < p->count; ++i)
        python_peer_destroy(p->peer[i]);
}
