// peer.cu: the benchmark's work by CUB.  nvcc -O3 -arch=native -shared -Xcompiler -fPIC -o peer.so peer.cu
#include "peer.h"

#include <cub/cub.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

namespace {

struct temporary {
    void *memory = nullptr;
    size_t bytes = 0;

    cudaError_t reserve(size_t wanted) {
        if (wanted <= bytes)
            return cudaSuccess;
        cudaFree(memory);
        bytes = wanted;
        return cudaMalloc(&memory, bytes);
    }
} scratch;

/* CUB's functions are called twice: for the size of their memory, and to run. */
template <class F> cudaError_t run(F f) {
    size_t bytes = 0;
    cudaError_t error = f(static_cast<void *>(nullptr), bytes);
    if (error == cudaSuccess)
        error = scratch.reserve(bytes);
    return error == cudaSuccess ? f(scratch.memory, bytes) : error;
}

struct largest {
    template <class T> __device__ T operator()(T a, T b) const { return a < b ? b : a; }
};

template <class T> struct fused {
    const T *x, *y, *z;
    __device__ T operator()(size_t i) const { return x[i] * y[i] + z[i]; }
};

template <class T> struct three {
    T sum, squares, most;
};
template <class T> struct to_three {
    const T *x;
    __device__ three<T> operator()(size_t i) const { return {x[i], x[i] * x[i], x[i]}; }
};
template <class T> struct add_three {
    __device__ three<T> operator()(const three<T> &a, const three<T> &b) const {
        return {a.sum + b.sum, a.squares + b.squares, a.most < b.most ? b.most : a.most};
    }
};

template <class T> struct less_of {
    const T *x, *y;
    __device__ bool operator()(unsigned i) const { return x[i] < y[i]; }
};

struct times {
    size_t length, n;
    __host__ __device__ size_t operator()(size_t i) const {
        return i * length < n ? i * length : n;
    }
};

template <class F> auto indexed(F f) {
    return thrust::make_transform_iterator(thrust::counting_iterator<size_t>(0), f);
}

/* Each costs nvcc seconds. */
template <class T> cudaError_t sum(const combine_peer_work *w) {
    auto x = static_cast<const T *>(w->in[0]);
    auto out = static_cast<T *>(w->out);
    return run([&](void *t, size_t &b) {
        return cub::DeviceReduce::Sum(t, b, x, out, static_cast<long long>(w->n));
    });
}
template <class T> cudaError_t maximum(const combine_peer_work *w) {
    auto x = static_cast<const T *>(w->in[0]);
    auto out = static_cast<T *>(w->out);
    return run([&](void *t, size_t &b) {
        return cub::DeviceReduce::Reduce(t, b, x, out, static_cast<long long>(w->n), largest(),
                                         T(0));
    });
}
template <class T> cudaError_t scan(const combine_peer_work *w) {
    auto x = static_cast<const T *>(w->in[0]);
    auto out = static_cast<T *>(w->out);
    return run([&](void *t, size_t &b) {
        return cub::DeviceScan::InclusiveSum(t, b, x, out, static_cast<long long>(w->n));
    });
}

cudaError_t run_f32(const combine_peer_work *w) {
    auto x = static_cast<const float *>(w->in[0]), y = static_cast<const float *>(w->in[1]),
         z = static_cast<const float *>(w->in[2]);
    auto out = static_cast<float *>(w->out);
    auto numbers = static_cast<unsigned *>(w->out), count = static_cast<unsigned *>(w->count);
    auto n = static_cast<long long>(w->n);
    thrust::counting_iterator<unsigned> index(0);
    switch (w->kind) {
        case COMBINE_SUM: return sum<float>(w);
        case COMBINE_MAX: return maximum<float>(w);
        case COMBINE_SCAN: return scan<float>(w);
        case COMBINE_FUSED:
            return run([&](void *t, size_t &b) {
                return cub::DeviceReduce::Sum(t, b, indexed(fused<float> {x, y, z}), out, n);
            });
        case COMBINE_SEVERAL:
            return run([&](void *t, size_t &b) {
                return cub::DeviceReduce::Reduce(t, b, indexed(to_three<float> {x}),
                                                 static_cast<three<float> *>(w->out), n,
                                                 add_three<float>(), three<float> {0, 0, 0});
            });
        case COMBINE_BLOCKS: {
            auto begin = indexed(times {w->length, w->n});
            auto blocks = static_cast<long long>((w->n + w->length - 1) / w->length);
            return run([&](void *t, size_t &b) {
                return cub::DeviceSegmentedReduce::Sum(t, b, x, out, blocks, begin, begin + 1);
            });
        }
        case COMBINE_EXCLUSIVE:
            return run(
                [&](void *t, size_t &b) { return cub::DeviceScan::ExclusiveSum(t, b, x, out, n); });
        case COMBINE_SELECT:
            return run([&](void *t, size_t &b) {
                return cub::DeviceSelect::If(t, b, index, numbers, count, n, less_of<float> {x, y});
            });
        default: return cudaErrorInvalidValue;
    }
}

cudaError_t compress(const combine_peer_work *w) {
    auto flags = static_cast<const unsigned char *>(w->in[0]);
    auto numbers = static_cast<unsigned *>(w->out), count = static_cast<unsigned *>(w->count);
    thrust::counting_iterator<unsigned> index(0);
    return run([&](void *t, size_t &b) {
        return cub::DeviceSelect::Flagged(t, b, index, flags, numbers, count,
                                          static_cast<long long>(w->n));
    });
}

cudaError_t sort(const combine_peer_work *w) {
    auto x = static_cast<const unsigned *>(w->in[0]), values = static_cast<const unsigned *>(w->in[1]);
    auto out = static_cast<unsigned *>(w->out), moved = static_cast<unsigned *>(w->count);
    auto n = static_cast<long long>(w->n);
    return run([&](void *t, size_t &b) {
        return w->kind == COMBINE_PAIRS ? cub::DeviceRadixSort::SortPairs(t, b, x, out, values, moved, n)
                                        : cub::DeviceRadixSort::SortKeys(t, b, x, out, n);
    });
}

} // namespace

int combine_peer_run(const combine_peer_work *w) {
    if (w->kind == COMBINE_SORT || w->kind == COMBINE_PAIRS)
        return sort(w);
    switch (w->type) {
        case COMBINE_F32: return run_f32(w);
        case COMBINE_F64: return w->kind == COMBINE_SUM ? sum<double>(w) : scan<double>(w);
        case COMBINE_U32: return w->kind == COMBINE_MAX ? maximum<unsigned>(w) : scan<unsigned>(w);
        default: return compress(w);
    }
}

int combine_peer_wait(void) {
    return cudaDeviceSynchronize();
}
