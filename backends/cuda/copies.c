/* copies.c: copies to device memory, from it and in it.  Layer: cuda.
 *
 * Copies from and to memory that the driver has not pinned make the CPU wait, and are slow, so they
 * go through pinned memory (staging.h), piece by piece:
 *
 *   upload      host ─ memcpy ─► chunk ─ bus ─► device     the next piece is copied meanwhile
 *   download    device ─ bus ─► chunk ─ memcpy ─► host
 *
 * Several threads copy the pieces of a large one (copiers.h). Where there are no such threads a
 * large download is the driver's: it copies as fast as one core can. So is what finds no chunk.
 *
 * What is called here under base.lock is the only one that hands work to the driver, once the batch
 * is flushed: so the stream's mutex is not held over a copy. */
#include "cuda/copiers.h"
#include "cuda/stream.h"
#include <string.h>

enum {
    ALIGN = 256,
    BOUNCE = 1 << 16,    /* bytes: larger downloads gain nothing by it, if one thread copies */
    A_THREADS = 4 << 20, /* bytes that are worth a thread */
    DEFAULT_COPIERS = 8, /* they fill the bus */
    HALF = JITC_CUDA_AHEAD / 2
};

static size_t piece_of(size_t bytes) {
    return bytes < JITC_CUDA_CHUNK ? bytes : JITC_CUDA_CHUNK;
}

static uint64_t note_submitted(jitc_cuda_stream *s, bool mark) {
    jitc_mutex_lock(&s->mutex);
    uint64_t number = jitc_cuda_submitted_locked(s);
    if (mark)
        jitc_cuda_mark_locked(s);
    jitc_mutex_unlock(&s->mutex);
    return number;
}

static jit_status to_device(jitc_cuda_stream *s, void *to, const void *from, size_t bytes) {
    return jitc_cuda_device_check(
        s->device, jitc_cuda_of(s)->MemcpyHtoDAsync(jitc_cuda_address(to), from, bytes, s->stream),
        JITC_CU_MemcpyHtoDAsync);
}

static jit_status to_host(jitc_cuda_stream *s, void *to, const void *from, size_t bytes) {
    return jitc_cuda_device_check(
        s->device, jitc_cuda_of(s)->MemcpyDtoHAsync(to, jitc_cuda_address(from), bytes, s->stream),
        JITC_CU_MemcpyDtoHAsync);
}

/* ---- By one thread ---- */

/* Room for at most a chunk in that of the stream. *to is NULL if none is to be had. */
static jit_status find_room(jitc_cuda_stream *s, size_t bytes, char **to) {
    jitc_cuda_chunk *c = s->chunk;
    if (c && JITC_CUDA_CHUNK - c->used < bytes && jitc_cuda_reached(s, c->number))
        c->used = 0;
    if (c && JITC_CUDA_CHUNK - c->used < bytes) {
        jitc_cuda_chunk_give(s->device, c, s, c->number);
        c = s->chunk = NULL;
    }
    if (!c)
        TRY(jitc_cuda_chunk_take(s->device, true, &c));
    s->chunk = c;
    *to = c ? c->pointer + c->used : NULL;
    if (c)
        c->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return JIT_OK;
}

/* At most a chunk. The caller notes the number of the copy. */
static jit_status upload_piece(jitc_cuda_stream *s, void *to, const void *from, size_t bytes) {
    char *room = NULL;
    TRY(find_room(s, bytes, &room));
    if (room)
        memcpy(room, from, bytes);
    return to_device(s, to, room ? room : from, bytes);
}

static void note_use(jitc_cuda_stream *s, uint64_t number) {
    if (s->chunk)
        s->chunk->number = number;
}

jit_status jitc_cuda_upload_part(jitc_cuda_stream *s, char *to, const char *from, size_t bytes,
                                 uint64_t number) {
    for (size_t n; bytes; bytes -= n, to += n, from += n) {
        n = piece_of(bytes);
        TRY(upload_piece(s, to, from, n));
        note_use(s, number);
    }
    return JIT_OK;
}

static jit_status upload_pieces(jitc_cuda_stream *s, char *to, const char *from, size_t bytes,
                                uint64_t *number) {
    for (size_t n; bytes; bytes -= n, to += n, from += n) {
        n = piece_of(bytes);
        TRY(upload_piece(s, to, from, n));
        *number = note_submitted(s, n < bytes);
        note_use(s, *number);
    }
    return JIT_OK;
}

static jit_status wait_for(jitc_cuda_stream *s, uint64_t number) {
    TRY(jitc_cuda_reach(s, number));
    if (jitc_load_acquire(&s->device->failed))    /* pairs with note_locked */
        return jitc_cuda_device_raise(s->device); /* at exit, when nobody is waited for */
    return JIT_OK;
}

static jit_status download_directly(jitc_cuda_stream *s, void *to, const void *from, size_t bytes) {
    TRY(to_host(s, to, from, bytes));
    return wait_for(s, note_submitted(s, false));
}

/* At most a chunk. */
static jit_status download_piece(jitc_cuda_stream *s, void *to, const void *from, size_t bytes) {
    jitc_cuda_chunk *c;
    uint64_t number = 0;
    TRY(jitc_cuda_chunk_take(s->device, false, &c));
    if (!c)
        return download_directly(s, to, from, bytes);
    jit_status status = to_host(s, c->pointer, from, bytes);
    if (status == JIT_OK) {
        number = note_submitted(s, false);
        status = wait_for(s, number);
    }
    if (status == JIT_OK)
        memcpy(to, c->pointer, bytes);
    jitc_cuda_chunk_give(s->device, c, s, number);
    return status;
}

/* ---- By several threads ---- */

/* Pieces 0 ... count - 1, and which of them have come how far. */
typedef struct transfer {
    jitc_cuda_stream *stream;
    char *device, *host;
    size_t bytes, count;
    size_t begun, posted, ended;
    jitc_cuda_chunk *chunk[JITC_CUDA_AHEAD]; /* of piece i: at i % JITC_CUDA_AHEAD */
    uint64_t number[JITC_CUDA_AHEAD];
    jitc_cuda_copiers copiers;
} transfer;

static unsigned count_copiers(const jitc_cuda_device *d, size_t bytes) {
    long wanted = (long) d->backend->options->copy_threads;
    size_t worth = bytes / A_THREADS;
    if (!wanted) {
        wanted = jitc_usable_cores() / 2;
        wanted = wanted > DEFAULT_COPIERS ? DEFAULT_COPIERS : wanted;
    }
    return (size_t) wanted < worth ? (unsigned) wanted : (unsigned) worth;
}

static size_t bytes_of(const transfer *t, size_t i) {
    return piece_of(t->bytes - i * JITC_CUDA_CHUNK);
}

/* A chunk for the next piece; NULL if there is none without a wait and other pieces are under way,
 * or if there is none at all. */
static jit_status begin_piece(transfer *t, jitc_cuda_chunk **out) {
    size_t under_way = t->begun - t->ended;
    *out = NULL;
    if (t->begun == t->count || under_way == JITC_CUDA_AHEAD)
        return JIT_OK;
    TRY(jitc_cuda_chunk_take(t->stream->device, !under_way, out));
    if (!*out)
        return JIT_OK;
    t->chunk[t->begun % JITC_CUDA_AHEAD] = *out;
    t->number[t->begun++ % JITC_CUDA_AHEAD] = 0;
    return JIT_OK;
}

static void end_piece(transfer *t) {
    size_t i = t->ended++ % JITC_CUDA_AHEAD;
    jitc_cuda_chunk_give(t->stream->device, t->chunk[i], t->stream, t->number[i]);
}

static void end_transfer(transfer *t) {
    jitc_cuda_copiers_end(&t->copiers);
    while (t->ended < t->begun)
        end_piece(t);
}

static jit_status post_uploads(transfer *t) {
    jitc_cuda_chunk *c;
    for (;;) {
        size_t i = t->begun;
        TRY(begin_piece(t, &c));
        if (!c)
            return JIT_OK;
        jitc_cuda_copiers_post(&t->copiers, c->pointer, t->host + i * JITC_CUDA_CHUNK,
                               bytes_of(t, i));
    }
}

/* Piece `ended` lies in its chunk: hand it on. */
static jit_status submit_upload(transfer *t, uint64_t *number) {
    size_t i = t->ended;
    TRY(to_device(t->stream, t->device + i * JITC_CUDA_CHUNK,
                  t->chunk[i % JITC_CUDA_AHEAD]->pointer, bytes_of(t, i)));
    *number = t->number[i % JITC_CUDA_AHEAD] = note_submitted(t->stream, i + 1 < t->count);
    end_piece(t);
    return JIT_OK;
}

static jit_status upload_pieces_at_once(transfer *t, uint64_t *number) {
    while (t->ended < t->count) {
        TRY(post_uploads(t));
        if (t->begun == t->ended)
            return JIT_OK; /* no chunk */
        jitc_cuda_copiers_wait(&t->copiers, t->ended);
        TRY(submit_upload(t, number));
    }
    return JIT_OK;
}

static jit_status submit_downloads(transfer *t) {
    jitc_cuda_chunk *c;
    for (;;) {
        size_t i = t->begun;
        TRY(begin_piece(t, &c));
        if (!c)
            return JIT_OK;
        TRY(to_host(t->stream, c->pointer, t->device + i * JITC_CUDA_CHUNK, bytes_of(t, i)));
        t->number[i % JITC_CUDA_AHEAD] = note_submitted(t->stream, true);
    }
}

/* Piece `posted` is on its way: when it has arrived it may be copied. */
static jit_status post_download(transfer *t) {
    size_t i = t->posted;
    TRY(wait_for(t->stream, t->number[i % JITC_CUDA_AHEAD]));
    jitc_cuda_copiers_post(&t->copiers, t->host + i * JITC_CUDA_CHUNK,
                           t->chunk[i % JITC_CUDA_AHEAD]->pointer, bytes_of(t, i));
    ++t->posted;
    return JIT_OK;
}

static jit_status download_pieces_at_once(transfer *t) {
    while (t->ended < t->count) {
        TRY(submit_downloads(t));
        if (t->begun == t->ended)
            return JIT_OK; /* no chunk */
        if (t->posted < t->begun)
            TRY(post_download(t));
        if (t->posted == t->begun || t->posted - t->ended > HALF) {
            jitc_cuda_copiers_wait(&t->copiers, t->ended);
            end_piece(t);
        }
    }
    return JIT_OK;
}

static void begin_transfer(transfer *t, unsigned threads) {
    t->count = (t->bytes + JITC_CUDA_CHUNK - 1) / JITC_CUDA_CHUNK;
    jitc_cuda_copiers_start(&t->copiers, threads);
}

/* *moved: so many bytes, from the first on. */
static jit_status upload_at_once(jitc_cuda_stream *s, char *to, char *from, size_t *moved,
                                 uint64_t *number) {
    transfer t = {.stream = s, .device = to, .host = from, .bytes = *moved};
    begin_transfer(&t, count_copiers(s->device, t.bytes));
    jit_status status = upload_pieces_at_once(&t, number);
    end_transfer(&t);
    *moved = t.ended == t.count ? t.bytes : t.ended * JITC_CUDA_CHUNK;
    return status;
}

static jit_status download_at_once(jitc_cuda_stream *s, char *to, char *from, size_t *moved) {
    transfer t = {.stream = s, .device = from, .host = to, .bytes = *moved};
    begin_transfer(&t, count_copiers(s->device, t.bytes));
    jit_status status = download_pieces_at_once(&t);
    end_transfer(&t);
    *moved = t.ended == t.count ? t.bytes : t.ended * JITC_CUDA_CHUNK;
    return status;
}

/* ---- Copies ---- */

static jit_status upload(jitc_cuda_stream *s, char *to, char *from, size_t bytes,
                         uint64_t *number) {
    size_t moved = 0;
    if (count_copiers(s->device, bytes) > 1) {
        moved = bytes;
        TRY(upload_at_once(s, to, from, &moved, number));
    }
    return upload_pieces(s, to + moved, from + moved, bytes - moved, number);
}

jit_status jitc_cuda_upload(jitc_cuda_stream *s, void *to, const void *from, size_t bytes,
                            uint64_t *number) {
    TRY(jitc_cuda_flush(s));
    *number = jitc_load_relaxed(&s->last);
    jit_status status = upload(s, to, (char *) (uintptr_t) from, bytes, number);
    if (status != JIT_OK)
        jitc_cuda_reach(s, jitc_load_relaxed(&s->last)); /* nothing may be queued now */
    return status;
}

jit_status jitc_cuda_copy(jitc_cuda_stream *s, void *to, const void *from, size_t bytes,
                          uint64_t *number) {
    TRY(jitc_cuda_flush(s));
    TRY(jitc_cuda_device_check(s->device,
                               jitc_cuda_of(s)->MemcpyDtoDAsync(jitc_cuda_address(to),
                                                                jitc_cuda_address(from), bytes,
                                                                s->stream),
                               JITC_CU_MemcpyDtoDAsync));
    *number = note_submitted(s, false);
    return JIT_OK;
}

jit_status jitc_cuda_download(jitc_cuda_stream *s, void *to, const void *from, size_t bytes) {
    size_t moved = 0;
    TRY(jitc_cuda_flush(s));
    if (bytes <= BOUNCE)
        return download_piece(s, to, from, bytes);
    if (count_copiers(s->device, bytes) > 1) {
        moved = bytes;
        TRY(download_at_once(s, to, (char *) (uintptr_t) from, &moved));
    }
    if (moved == bytes)
        return JIT_OK;
    return download_directly(s, (char *) to + moved, (const char *) from + moved, bytes - moved);
}
