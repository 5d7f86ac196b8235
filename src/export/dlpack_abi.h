/* dlpack_abi.h: the part of DLPack 1.3 that is used here, declared by us, so that nothing else is
 * needed to build.  Layer: export.  May include: core, ir, device.
 *
 * The names and the guard are those of the real dlpack.h: a file that includes both sees whichever
 * comes first. lint.dlpack_header compares them. */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_
#include <stdint.h>

#define DLPACK_MAJOR_VERSION          1
#define DLPACK_MINOR_VERSION          3
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)

typedef struct DLPackVersion {
    uint32_t major, minor;
} DLPackVersion;

typedef enum DLDeviceType {
    kDLCPU = 1,
    kDLCUDA = 2,
    kDLCUDAHost = 3,
    kDLCUDAManaged = 13
} DLDeviceType;

typedef struct DLDevice {
    DLDeviceType device_type;
    int32_t device_id;
} DLDevice;

typedef enum DLDataTypeCode {
    kDLInt = 0,
    kDLUInt = 1,
    kDLFloat = 2,
    kDLOpaqueHandle = 3,
    kDLBfloat = 4,
    kDLComplex = 5,
    kDLBool = 6,
    kDLFloat8_e3m4 = 7,
    kDLFloat8_e4m3 = 8,
    kDLFloat8_e4m3b11fnuz = 9,
    kDLFloat8_e4m3fn = 10,
    kDLFloat8_e4m3fnuz = 11,
    kDLFloat8_e5m2 = 12,
    kDLFloat8_e5m2fnuz = 13,
    kDLFloat8_e8m0fnu = 14,
    kDLFloat6_e2m3fn = 15,
    kDLFloat6_e3m2fn = 16,
    kDLFloat4_e2m1fn = 17
} DLDataTypeCode;

typedef struct DLDataType {
    uint8_t code; /* a DLDataTypeCode */
    uint8_t bits;
    uint16_t lanes;
} DLDataType;

typedef struct DLTensor {
    void *data; /* NULL if there are no elements */
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;       /* may be NULL if ndim is 0 */
    int64_t *strides;     /* in elements; before 1.2 NULL: compact and row-major */
    uint64_t byte_offset; /* of the first element, from data */
} DLTensor;

typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self); /* once; NULL: nothing to do */
} DLManagedTensor;

/* If the major version is another one, nothing behind `flags` may be looked at. */
typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self); /* as above */
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

typedef struct DLPackExchangeAPIHeader {
    DLPackVersion version;
    struct DLPackExchangeAPIHeader *prev_api; /* of an earlier major version, or NULL */
} DLPackExchangeAPIHeader;

/* How a type of Python hands its tensors out without a call of Python: the capsule
 * __dlpack_c_exchange_api__ of the type. None of them waits or orders anything: who calls works on
 * current_work_stream. 0, or -1 with an exception; `set_error` instead, where there may be no GIL.
 */
typedef struct DLPackExchangeAPI {
    DLPackExchangeAPIHeader header;
    int (*managed_tensor_allocator)(DLTensor *prototype, DLManagedTensorVersioned **out,
                                    void *context,
                                    void (*set_error)(void *context, const char *kind,
                                                      const char *message));
    int (*managed_tensor_from_py_object_no_sync)(void *object, DLManagedTensorVersioned **out);
    int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned *tensor, void **out);
    int (*dltensor_from_py_object_no_sync)(void *object, DLTensor *out); /* borrowed; or NULL */
    int (*current_work_stream)(DLDeviceType type, int32_t device, void **out);
} DLPackExchangeAPI;
#endif
