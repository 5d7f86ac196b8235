/* test_dlpack_order.c: what an export orders, for every token and every kind of consumer, on the
 * simulated driver, which knows the order of all accesses whatever happened when: see
 * test_sync_tokens.c. Names in comments are those of public reports of what went wrong elsewhere.
 */
#include "dlpack_world.h"
#include "lend_world.h"
#include "sync_scene.h"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

TestSuite(dlpack_order, .init = scene_start, .fini = scene_finish, .timeout = 120);

/** One export, and who reads it. */
typedef struct trial {
    scene s;
    bool unevaluated;  /* the export launches it */
    bool other_device; /* the thread's is not the array's */
    bool legacy;
    int copy;
    tensor t;
} trial;

static jit_export_options options_of(const trial *r) {
    jit_export_options o = JIT_EXPORT_OPTIONS;
    o.stream = (intptr_t) sync_token_value(r->s.token, r->s.consumer);
    o.copy = r->copy;
    return o;
}

/* In the thread that it is called in. */
static void export_there(void *context) {
    trial *r = context;
    scene *s = &r->s;
    CUcontext before, after;
    jit_export_options o = options_of(r);
    jit_set_device(JIT_CUDA, r->other_device ? !s->device : s->device);
    w.CtxGetCurrent(&before);
    asked a = scene_calls();
    s->status = r->legacy ? jit_export_dlpack_legacy(s->v, &o, &r->t.legacy)
                          : jit_export_dlpack(s->v, &o, &r->t.versioned);
    asked b = scene_calls();
    w.CtxGetCurrent(&after);
    jit_set_device(JIT_CUDA, s->device);
    s->context_stays = before == after;
    s->asked = (asked) {b.records - a.records, b.waits - a.waits, b.cpu_waits - a.cpu_waits};
    snprintf(s->error, sizeof s->error, "%s", jit_error());
}

static void export_by(trial *r) {
    if (r->s.how == SYNC_BY_CONSUMER)
        consumer_call(r->s.consumer, export_there, r);
    else
        export_there(r);
}

/** Token 0 must not come back before the gate is opened. */
static void export_and_wait(trial *r) {
    pthread_t thread;
    opener o = {.gate = &r->s.gate};
    cr_assert_eq(pthread_create(&thread, NULL, scene_open_later, &o), 0);
    export_by(r);
    bool waited = o.opened;
    pthread_join(thread, NULL);
    cr_assert(waited, "%s: the CPU does not wait", scene_name(&r->s));
}

static void check_export(const trial *r, bool counted) {
    const scene *s = &r->s;
    cr_assert_eq(s->status, JIT_OK, "%s: %s", scene_name(s), s->error);
    cr_assert(s->context_stays, "%s: another context is current", scene_name(s));
    const DLTensor *d = dlpack_tensor(&r->t);
    cr_assert_eq(d->device.device_type, kDLCUDA);
    cr_assert_eq(d->device.device_id, s->device, "%s", scene_name(s)); /* tensorflow#47866 */
    if (!counted)
        return;
    uint64_t events = (uint64_t) sync_events_of_sync(s->token, s->kind);
    cr_assert_eq(s->asked.cpu_waits, 0, "%s: the CPU waits", scene_name(s));
    cr_assert_eq(s->asked.records, events, "%s: %llu events", scene_name(s),
                 (unsigned long long) s->asked.records);
    cr_assert_eq(s->asked.waits, events, "%s: %llu waits", scene_name(s),
                 (unsigned long long) s->asked.waits);
}

static void check_reader(scene *s, bool open) {
    if (s->sees && !open) {
        usleep(50); /* so that what could run would */
        cr_assert(!consumer_done(s->consumer), "%s: the consumer does not wait", scene_name(s));
    }
    if (!open && s->sees)
        consumer_gate_open(&s->gate);
    consumer_wait(s->consumer);
    bool fresh = scene_counts_up(consumer_data(s->consumer), s->first);
    if (!open && !s->sees)
        consumer_gate_open(&s->gate);
    cr_assert_eq(fresh, s->sees, "%s: the data is %s", scene_name(s), fresh ? "new" : "old");
}

static void run_reader(trial r) {
    scene *s = &r.s;
    bool waits = s->token == SYNC_0;
    /* A thread that has queued nothing exports: its stream comes after what it exports. */
    sync_how as = s->how == SYNC_BY_CONSUMER ? SYNC_ONE_THREAD : s->how;
    s->sees = sync_orders_reader(s->token, as, s->place, s->kind);
    scene_begin(s);
    consumer_gate_close(&s->gate, jit_cuda_stream(), s->device);
    s->v = scene_plus(s->x, s->first);
    if (!r.unevaluated)
        ASSERT_OK(jit_var_eval(s->v));
    /* What was lent before, or lay there, may cost events of its own. */
    bool counted =
        !waits && !r.unevaluated && !r.copy && s->how != SYNC_BY_CONSUMER && !lend_pending();
    if (waits)
        export_and_wait(&r);
    else
        export_by(&r);
    check_export(&r, counted);
    consumer_read(s->consumer, dlpack_tensor(&r.t)->data, SIZE);
    check_reader(s, waits);
    dlpack_delete(&r.t);
    scene_end(s);
}

static void run_readers(trial r) {
    for (int device = 0; device < 2; ++device)
        for (int token = 0; token < SYNC_TOKENS; ++token)
            for (int place = 0; place < CONSUMER_PLACES; ++place)
                for (int kind = 0; kind < CONSUMER_KINDS; ++kind) {
                    r.s.token = (sync_token) token;
                    r.s.place = (consumer_place) place;
                    r.s.kind = (consumer_kind) kind;
                    r.s.device = device;
                    r.legacy = (token + place + kind) & 1;
                    run_reader(r);
                }
}

/* drjit#198: JAX read garbage. drjit#377, drjit-core#139: 2 is the calling thread's stream.
 * pytorch#101318: 1 is the real legacy stream. physicsnemo#1771, warp#159: consumers of every kind
 * have to see the data. */
Test(dlpack_order, the_consumer_is_in_the_same_thread) {
    run_readers((trial) {.s.how = SYNC_ONE_THREAD});
}
Test(dlpack_order, what_is_not_evaluated_is_launched_first) {
    run_readers((trial) {.s.how = SYNC_ONE_THREAD, .unevaluated = true});
}
Test(dlpack_order, the_consumer_is_in_another_thread) {
    run_readers((trial) {.s.how = SYNC_BY_PRODUCER});
}
Test(dlpack_order, the_consumer_asks_for_it_in_a_thread_that_queued_nothing) {
    run_readers((trial) {.s.how = SYNC_BY_CONSUMER});
}
Test(dlpack_order, the_device_is_that_of_the_array_and_not_of_the_thread) {
    run_readers((trial) {.s.how = SYNC_ONE_THREAD, .other_device = true});
}
Test(dlpack_order, a_copy_is_made_before_the_consumer_reads_it) {
    run_readers((trial) {.s.how = SYNC_ONE_THREAD, .copy = JIT_COPY_ALWAYS});
}

/* ---- Without a kernel ---- */

/* numba#5162, rmm#313: nothing but an upload, or a fill, has touched the memory. */
static void run_leaf(bool literal, bool to_cpu) {
    uint32_t words[SIZE];
    trial r = {.s = {.token = SYNC_HANDLE, .kind = CONSUMER_NON_BLOCKING, .sees = true}};
    scene *s = &r.s;
    opener o = {.gate = &s->gate};
    pthread_t thread;
    scene_begin(s);
    for (int warm = 0; warm < 2; ++warm) { /* first the kernel is loaded */
        for (uint32_t i = 0; i < SIZE; ++i)
            words[i] = s->first + i;
        if (warm)
            consumer_gate_close(&s->gate, jit_cuda_stream(), 0);
        s->v =
            literal ? jit_counter(JIT_CUDA, SIZE) : jit_from_host(JIT_CUDA, JIT_u32, words, SIZE);
        if (to_cpu && warm)
            cr_assert_eq(pthread_create(&thread, NULL, scene_open_later, &o), 0);
        jit_export_options opt = options_of(&r);
        if (to_cpu)
            opt.stream = JIT_STREAM_NOT_GIVEN, opt.device_type = kDLCPU;
        r.t = dlpack_export(s->v, false, &opt);
        if (!warm) {
            dlpack_delete(&r.t);
            jit_unref(s->v);
        }
    }
    if (literal)
        s->first = 0;
    if (to_cpu) {
        cr_assert(o.opened, "the CPU does not wait");
        pthread_join(thread, NULL);
        cr_assert(scene_counts_up(dlpack_tensor(&r.t)->data, s->first));
    } else {
        consumer_read(s->consumer, dlpack_tensor(&r.t)->data, SIZE);
        check_reader(s, false);
    }
    dlpack_delete(&r.t);
    scene_end(s);
}

Test(dlpack_order, what_was_only_copied_or_filled_is_there_too) {
    for (int i = 0; i < 4; ++i)
        run_leaf(i & 1, i & 2);
}

static void enter(void) {
    cr_assert_eq(w.CtxPushCurrent(jit_cuda_context()), CUDA_SUCCESS);
}
static void leave(void) {
    cr_assert_eq(w.CtxPopCurrent(&(CUcontext) {NULL}), CUDA_SUCCESS);
}

/* ---- Readers of unknown streams ---- */

/* drjit#377, deepmd-kit#2661: TensorFlow works on several streams that it tells nobody of, none of
 * which waits for any other. pytorch#67618, cupy#5970: 0 is a token like others. */
Test(dlpack_order, after_token_0_any_stream_can_read) {
    enum { STREAMS = 3 };
    consumer *c[STREAMS];
    for (int unevaluated = 0; unevaluated < 2; ++unevaluated) {
        trial r = {.s = {.token = SYNC_0, .kind = CONSUMER_NON_BLOCKING, .sees = true}};
        scene *s = &r.s;
        scene_begin(s);
        for (int i = 0; i < STREAMS; ++i)
            c[i] = consumer_create(CONSUMER_NON_BLOCKING, CONSUMER_HERE, 0, SIZE, i);
        consumer_gate_close(&s->gate, jit_cuda_stream(), 0);
        s->v = scene_plus(s->x, s->first);
        if (!unevaluated)
            ASSERT_OK(jit_var_eval(s->v));
        export_and_wait(&r);
        check_export(&r, false);
        CUresult (*query)(CUstream);
        consumer_driver(&query, "cuStreamQuery");
        enter();
        cr_assert_eq(query(jit_cuda_stream()), CUDA_SUCCESS);
        leave();
        for (int i = 0; i < STREAMS; ++i)
            consumer_read(c[i], dlpack_tensor(&r.t)->data, SIZE);
        for (int i = 0; i < STREAMS; ++i) {
            consumer_wait(c[i]);
            cr_assert(scene_counts_up(consumer_data(c[i]), s->first));
            consumer_destroy(c[i]);
        }
        dlpack_delete(&r.t);
        scene_end(s);
    }
}

/* ---- The other way round ---- */

/* pytorch#57110: the consumer waits for us, never we for it. */
Test(dlpack_order, we_do_not_wait_for_the_consumer) {
    for (int kind = CONSUMER_BLOCKING; kind < CONSUMER_KINDS; ++kind) {
        trial r = {.s = {.token = SYNC_HANDLE, .kind = (consumer_kind) kind, .sees = true}};
        scene *s = &r.s;
        uint32_t got[SIZE];
        scene_begin(s);
        s->v = scene_plus(s->x, s->first);
        ASSERT_OK(jit_var_eval(s->v));
        consumer_close_gate(s->consumer, &s->gate);
        export_there(&r);
        check_export(&r, true);
        consumer_read(s->consumer, dlpack_tensor(&r.t)->data, SIZE);
        jit_var next = scene_plus(s->v, 3); /* with the gate closed, or for ever */
        ASSERT_OK(jit_read(next, got));
        cr_assert(scene_counts_up(got, s->first + 3));
        cr_assert(!consumer_done(s->consumer));
        consumer_gate_open(&s->gate);
        check_reader(s, true);
        dlpack_delete(&r.t);
        jit_unref(next);
        scene_end(s);
    }
}

/* ---- Writers ---- */

/* Another thread computes with the array, behind a gate. */
typedef struct user {
    scene *s;
    jit_var sum;
} user;

static void *use_behind_gate(void *context) {
    user *u = context;
    ASSERT_OK(jit_set_device(JIT_CUDA, u->s->device));
    consumer_gate_close(&u->s->gate, jit_cuda_stream(), u->s->device);
    u->sum = scene_plus(u->s->v, 1);
    ASSERT_OK(jit_var_eval(u->sum));
    return NULL;
}

/* A consumer that may write comes after what was evaluated before, in whichever thread; one that
 * may only read need not. */
static void run_writer(consumer_kind kind, bool read_only) {
    trial r = {.s = {.token = SYNC_HANDLE, .kind = kind, .sees = true}};
    scene *s = &r.s;
    user u = {.s = s};
    pthread_t thread;
    uint32_t got[SIZE];
    scene_begin(s);
    s->v = scene_plus(s->x, s->first);
    ASSERT_OK(jit_var_eval(s->v));
    ASSERT_OK(jit_sync_thread());
    cr_assert_eq(pthread_create(&thread, NULL, use_behind_gate, &u), 0);
    pthread_join(thread, NULL);
    if (read_only)
        jit_ref(s->v);
    export_there(&r);
    check_export(&r, false);
    cr_assert_eq(dlpack_flags(&r.t), read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0);
    if (read_only)
        consumer_read(s->consumer, dlpack_tensor(&r.t)->data, SIZE);
    else
        consumer_write(s->consumer, dlpack_tensor(&r.t)->data, 7, SIZE);
    usleep(50);
    if (read_only)
        consumer_wait(s->consumer); /* with the gate closed, or for ever */
    else
        cr_assert(!consumer_done(s->consumer), "%s: overwritten", scene_name(s));
    consumer_gate_open(&s->gate);
    consumer_wait(s->consumer);
    ASSERT_OK(jit_read(u.sum, got));
    cr_assert(scene_counts_up(got, s->first + 1), "%s: overwritten", scene_name(s));
    if (read_only)
        jit_unref(s->v);
    jit_unref(u.sum);
    dlpack_delete(&r.t);
    scene_end(s);
}

Test(dlpack_order, who_may_write_comes_after_those_who_read) {
    for (int kind = CONSUMER_PER_THREAD; kind < CONSUMER_KINDS; ++kind)
        for (int read_only = 0; read_only < 2; ++read_only)
            run_writer((consumer_kind) kind, read_only);
}

/* What the consumer writes on its stream is seen by what is evaluated after the wait for it. */
Test(dlpack_order, a_write_is_seen_after_the_wait_for_it) {
    for (int kind = 0; kind < CONSUMER_KINDS; ++kind) {
        trial r = {.s = {.token = SYNC_HANDLE, .kind = (consumer_kind) kind, .sees = true}};
        scene *s = &r.s;
        uint32_t got[SIZE];
        scene_begin(s);
        s->v = scene_plus(s->x, s->first);
        export_there(&r);
        check_export(&r, false);
        jit_var after = scene_plus(s->v, 2);
        consumer_close_gate(s->consumer, &s->gate);
        consumer_write(s->consumer, dlpack_tensor(&r.t)->data, 40, SIZE);
        ASSERT_OK(jit_cuda_wait_stream(consumer_stream(s->consumer)));
        ASSERT_OK(jit_var_eval(after));
        consumer_gate_open(&s->gate);
        ASSERT_OK(jit_read(after, got));
        cr_assert(got[0] == 42 && got[SIZE - 1] == 42, "%s: %u", scene_name(s), got[0]);
        dlpack_delete(&r.t);
        jit_unref(after);
        scene_end(s);
    }
}

/* ---- The end ---- */

/* cupy#4537, dlpack#176: the handle may be that of nothing, or of another stream, by then. */
Test(dlpack_order, the_deleter_does_not_use_the_stream) {
    for (int kind = CONSUMER_BLOCKING; kind < CONSUMER_KINDS; ++kind) {
        trial r = {.s = {.token = SYNC_HANDLE, .kind = (consumer_kind) kind, .sees = true}};
        scene *s = &r.s;
        consumer *gone = consumer_create((consumer_kind) kind, CONSUMER_HERE, 0, SIZE, false);
        scene_begin(s);
        consumer_gate_close(&s->gate, jit_cuda_stream(), 0);
        consumer_gate_open(&s->gate);
        s->v = scene_plus(s->x, s->first);
        consumer *kept = s->consumer;
        s->consumer = gone;
        export_there(&r);
        check_export(&r, false);
        consumer_read(gone, dlpack_tensor(&r.t)->data, SIZE);
        consumer_destroy(gone);
        s->consumer = kept;
        asked a = scene_calls();
        dlpack_delete(&r.t);
        asked b = scene_calls();
        cr_assert(a.records == b.records && a.waits == b.waits && a.cpu_waits == b.cpu_waits);
        jit_unref(s->v);
        s->v = scene_plus(s->x, 5);
        ASSERT_OK(jit_var_eval(s->v));
        scene_end(s);
    }
}

/* ---- Captures ---- */

/* pytorch#163242, nanobind#1241, array-api#974: who is in a capture cannot wait for us. */
Test(dlpack_order, a_stream_that_is_captured_is_refused_and_left_alone) {
    CUresult (*begin)(CUstream, int), (*end)(CUstream, CUgraph *), (*destroy)(CUgraph);
    CUgraph graph;
    consumer_driver(&begin, "cuStreamBeginCapture_v2");
    consumer_driver(&end, "cuStreamEndCapture");
    consumer_driver(&destroy, "cuGraphDestroy");
    for (int mode = 0; mode < 3; ++mode)
        for (int copy = 0; copy <= JIT_COPY_ALWAYS; ++copy) {
            trial r = {.s = {.token = SYNC_HANDLE, .kind = CONSUMER_NON_BLOCKING, .sees = true},
                       .copy = copy};
            scene *s = &r.s;
            scene_begin(s);
            CUstream captured = (CUstream) consumer_stream(s->consumer);
            consumer_gate_close(&s->gate, jit_cuda_stream(), 0);
            s->v = scene_plus(s->x, s->first);
            ASSERT_OK(jit_var_eval(s->v));
            size_t live = dlpack_stats().bytes_live, pending = lend_pending();
            enter();
            cr_assert_eq(begin(captured, mode), CUDA_SUCCESS);
            export_there(&r);
            cr_assert_eq(s->status, JIT_UNSUPPORTED, "%s", s->error);
            cr_assert_null(r.t.versioned);
            cr_assert(copy || s->asked.waits == 0); /* the copy may wait for its memory */
            cr_assert_eq(s->asked.cpu_waits, 0);
            cr_assert_eq(dlpack_stats().bytes_live, live);
            cr_assert_eq(lend_pending(), pending);
            jit_error_clear();
            s->token = SYNC_NONE;
            export_there(&r);
            check_export(&r, false);
            cr_assert_eq(end(captured, &graph), CUDA_SUCCESS, "the capture has ended");
            cr_assert_eq(destroy(graph), CUDA_SUCCESS);
            leave();
            consumer_gate_open(&s->gate);
            dlpack_delete(&r.t);
            scene_end(s);
        }
}
