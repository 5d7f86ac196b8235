/* dlpack_producer.h: another library that hands out tensors: memory of its own, the structs of
 * DLPack, and a deleter that counts, poisons and frees them.
 * Layer: tests.
 *
 * Host memory lies right before (or behind) a page that cannot be touched, and is unmapped by the
 * deleter; device memory is of the driver's, and freed by it. So whoever uses it too late, or what
 * is beside it, is found out. */
#ifndef JITC_TESTS_DLPACK_PRODUCER_H
#define JITC_TESTS_DLPACK_PRODUCER_H
#include "export/dlpack_abi.h"
#include "support.h"
#include <jit/dlpack.h>
#include <stdatomic.h>

/** What is wanted. */
typedef struct tensor_spec {
    jit_dtype type;
    int ndim;
    const int64_t *shape, *strides; /* NULL: NULL in the struct */
    DLDeviceType device;            /* 0: memory of the backend under test */
    int device_id;                  /* of CUDA: where the memory is made */
    bool legacy;                    /* the struct without a version */
    bool at_start;                  /* of host memory: right behind the page in front of it */
    size_t off;                     /* bytes that the memory is off from the place that it has */
    uint64_t byte_offset;           /* so many bytes of the address, in any case */
    uint64_t flags;
    bool keeps; /* the memory stays until producer_destroy() */
} tensor_spec;

/** A tensor, until the deleter has been called. */
typedef struct producer {
    tensor_spec spec;
    union {
        DLManagedTensorVersioned *versioned;
        DLManagedTensor *legacy;
    };
    DLTensor *tensor;     /* in it */
    char *memory;         /* of the lowest element */
    size_t elements;      /* from there to the highest */
    size_t before;        /* elements before the first one */
    size_t size;          /* elements of the tensor */
    void *block;          /* what is freed */
    size_t bytes;         /* of it */
    atomic_int deleted;   /* calls of the deleter */
    atomic_int ended;     /* the first one has returned */
    void (*hook)(void *); /* called by the deleter first, unless NULL */
    void *context;
} producer;

/** Its memory holds producer_bits(). */
producer *producer_create(const tensor_spec *spec);
/** The deleter has been called once, at least after all work is over. */
void producer_destroy(producer *p);
/** Import it, with the function that the struct needs. */
jit_status producer_import(producer *p, const jit_import_options *options, jit_var *out);
/** The same, which has to succeed. */
jit_var producer_take(producer *p);
/** Waits for all work first. */
int producer_deleted(producer *p);
/** The element at place `m` of the memory, from the lowest; of a bool: as a byte, of which not only
 * 1 is true. */
uint64_t producer_bits(jit_dtype t, size_t m);
/** What a variable has to have: bits in row-major order; free(). */
uint64_t *producer_expected(const producer *p);
/** What the memory holds still; free(). */
uint64_t *producer_memory(const producer *p);
#endif
