// peer.cu: the benchmark's work by hand and by CUB.  nvcc -O3 -arch=native -shared -Xcompiler -fPIC -o peer.so peer.cu
#include "peer.h"

#include <cub/cub.cuh>

namespace {

enum { THREADS = 256, BLOCK_BYTES = 48 << 10 };

/* What is small is combined in the memory of blocks, as everybody would do it. */
template <class T, bool values>
__global__ void add_in_blocks(T *table, const unsigned *index, const T *value, size_t n,
                              unsigned size) {
    extern __shared__ unsigned char memory[];
    T *mine = reinterpret_cast<T *>(memory);
    for (unsigned i = threadIdx.x; i < size; i += blockDim.x)
        mine[i] = 0;
    __syncthreads();
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n;
         i += size_t(gridDim.x) * blockDim.x)
        atomicAdd(mine + index[i], values ? value[i] : T(1));
    __syncthreads();
    for (unsigned i = threadIdx.x; i < size; i += blockDim.x)
        atomicAdd(table + i, mine[i]);
}

template <class T, bool values>
__global__ void add_in_place(T *table, const unsigned *index, const T *value, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n)
        atomicAdd(table + index[i], values ? value[i] : T(1));
}

__global__ void max_in_place(float *table, const unsigned *index, const float *value, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) /* of numbers that are not negative */
        atomicMax(reinterpret_cast<int *>(table) + index[i], __float_as_int(value[i]));
}

__global__ void count_in_place(unsigned *table, const unsigned *index, unsigned *out, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n)
        out[i] = atomicAdd(table + index[i], 1u);
}

__global__ void gather(const float *table, const unsigned *index, float *out, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n)
        out[i] = table[index[i]];
}

__global__ void mandelbrot(unsigned *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;
    if (i >= n)
        return;
    float x = float(i % SCATTER_WIDTH) * (3.0f / SCATTER_WIDTH) - 2.0f;
    float y = float(i / SCATTER_WIDTH) * (2.0f / SCATTER_WIDTH) - 1.0f;
    float a = 0, b = 0;
    while (k < SCATTER_ITERATIONS && a * a + b * b < 4) {
        float t = a * a - b * b + x;
        b = 2 * a * b + y;
        a = t;
        ++k;
    }
    out[i] = k;
}

template <class T, bool values> void add(const scatter_peer_work *w) {
    auto table = static_cast<T *>(w->table);
    auto index = static_cast<const unsigned *>(w->index);
    auto value = static_cast<const T *>(w->value);
    unsigned blocks = unsigned((w->n + THREADS - 1) / THREADS);
    if (w->size * sizeof(T) > BLOCK_BYTES) {
        add_in_place<T, values><<<blocks, THREADS>>>(table, index, value, w->n);
        return;
    }
    int device = 0, count = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    unsigned most = unsigned(4 * count);
    add_in_blocks<T, values><<<blocks < most ? blocks : most, 2 * THREADS, w->size * sizeof(T)>>>(
        table, index, value, w->n, unsigned(w->size));
}

struct temporary {
    void *memory = nullptr;
    size_t bytes = 0;
} scratch;

} // namespace

int scatter_hand_run(const scatter_peer_work *w) {
    unsigned blocks = unsigned((w->n + THREADS - 1) / THREADS);
    auto index = static_cast<const unsigned *>(w->index);
    auto reals = static_cast<float *>(w->table);
    auto numbers = static_cast<unsigned *>(w->table), out = static_cast<unsigned *>(w->out);
    auto value = static_cast<const float *>(w->value);
    switch (w->kind) {
        case SCATTER_COUNT: add<unsigned, false>(w); break;
        case SCATTER_ADD: add<float, true>(w); break;
        case SCATTER_MAX: max_in_place<<<blocks, THREADS>>>(reals, index, value, w->n); break;
        case SCATTER_INC: count_in_place<<<blocks, THREADS>>>(numbers, index, out, w->n); break;
        case SCATTER_GATHER:
            gather<<<blocks, THREADS>>>(reals, index, static_cast<float *>(w->out), w->n);
            break;
        default: mandelbrot<<<blocks, THREADS>>>(out, unsigned(w->n)); break;
    }
    return cudaGetLastError();
}

int scatter_cub_run(const scatter_peer_work *w) {
    if (w->kind != SCATTER_COUNT)
        return cudaErrorInvalidValue;
    auto samples = static_cast<const unsigned *>(w->index);
    auto table = static_cast<unsigned *>(w->table);
    auto run = [&](void *memory, size_t &bytes) {
        return cub::DeviceHistogram::HistogramEven(memory, bytes, samples, table, int(w->size + 1), 0u,
                                                   unsigned(w->size), static_cast<long long>(w->n));
    };
    size_t bytes = 0;
    cudaError_t error = run(nullptr, bytes);
    if (error == cudaSuccess && bytes > scratch.bytes) {
        cudaFree(scratch.memory);
        scratch.bytes = bytes;
        error = cudaMalloc(&scratch.memory, bytes);
    }
    return error == cudaSuccess ? run(scratch.memory, bytes) : error;
}

int scatter_peer_wait(void) {
    return cudaDeviceSynchronize();
}
