/* device.c: initialisation, devices, the names of errors.  Layer: tests. */
#include "state.h"
#include <stdio.h>
#include <string.h>

static bool initialised;

bool sim_initialised(void) {
    return initialised;
}

CUresult sim_cuInit(unsigned flags) {
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (initialised)
        return CUDA_SUCCESS;
    int devices = sim_device_count();
    if (devices <= 0)
        return CUDA_ERROR_NO_DEVICE;
    CUresult result = sim_memory_start(devices);
    if (result == CUDA_SUCCESS)
        result = sim_queue_start();
    initialised = result == CUDA_SUCCESS;
    return result;
}

CUresult sim_cuDriverGetVersion(int *version) {
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = sim_version();
    return CUDA_SUCCESS;
}

/* ---- devices ---- */

CUresult sim_device_check(CUdevice device) {
    return device < 0 || device >= sim_device_count() ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetCount(int *count) {
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = sim_device_count();
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGet(CUdevice *device, int ordinal) {
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = ordinal;
    return sim_device_check(ordinal);
}

CUresult sim_cuDeviceGetName(char *name, int length, CUdevice device) {
    if (!name || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t) length, "simulated GPU %d", device);
    return sim_device_check(device);
}

CUresult sim_cuDeviceGetUuid(void *uuid, CUdevice device) {
    unsigned char bytes[16] = "simulated GPU 0";
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    bytes[15] = (unsigned char) device;
    memcpy(uuid, bytes, sizeof bytes);
    return sim_device_check(device);
}

CUresult sim_cuDeviceGetUuid_v2(void *uuid, CUdevice device) {
    return sim_cuDeviceGetUuid(uuid, device);
}

CUresult sim_cuDeviceGetPCIBusId(char *text, int length, CUdevice device) {
    if (!text || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(text, (size_t) length, "0000:%02x:00.0", (unsigned) device + 1);
    return sim_device_check(device);
}

CUresult sim_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = sim_device_memory();
    return sim_device_check(device);
}

int sim_device_threads(void) {
    switch (sim_capability()) {
        case 75: return 1024;
        case 86:
        case 87:
        case 89:
        case 120: return 1536;
        default: return 2048;
    }
}

/** What is the same for all devices, by the numbers of CU_DEVICE_ATTRIBUTE_... */
static const struct attribute {
    int attribute, value;
} attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {2, 1024}, /* block, x y z */
    {3, 1024},
    {4, 64},
    {5, 2147483647}, /* grid, x y z */
    {6, 65535},
    {7, 65535},
    {8, SIM_SHARED},
    {9, 65536}, /* constant memory */
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {12, SIM_REGISTERS},
    {13, 1500000},                                 /* clock, kHz */
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 5}, /* odd, so that grids do not fit by chance */
    {17, 0},                                       /* no time limit of kernels */
    {18, 0},                                       /* not integrated */
    {19, 1},                                       /* host memory can be mapped */
    {20, 0},                                       /* compute mode: default */
    {31, 1},                                       /* kernels at once */
    {32, 0},                                       /* ECC */
    {34, 0},                                       /* PCI device */
    {36, 2000000},                                 /* memory clock */
    {37, 384},                                     /* memory bus */
    {38, 6 << 20},                                 /* L2 */
    {40, 1},                                       /* copy engines */
    {41, 1},                                       /* unified addressing */
    {50, 0},                                       /* PCI domain */
    {78, 1},                                       /* stream priorities */
    {81, SIM_SHARED_TOTAL},
    {82, SIM_REGISTERS},
    {83, 0},               /* managed memory */
    {88, 0},               /* pageable memory access */
    {89, 0},               /* concurrent managed access */
    {95, 0},               /* cooperative launch */
    {97, SIM_SHARED_MOST}, /* opt-in shared memory */
    {106, SIM_BLOCKS},
    {115, 1}, /* memory pools */
};
enum { ATTRIBUTE_PCI_BUS = 33, ATTRIBUTE_THREADS_PER_MULTIPROCESSOR = 39 };

CUresult sim_cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    switch (attribute) {
        case ATTRIBUTE_PCI_BUS: *value = device + 1; return CUDA_SUCCESS;
        case ATTRIBUTE_THREADS_PER_MULTIPROCESSOR:
            *value = sim_device_threads();
            return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
            *value = sim_capability() / 10;
            return CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
            *value = sim_capability() % 10;
            return CUDA_SUCCESS;
        default: break;
    }
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].attribute == attribute) {
            *value = attributes[i].value;
            return CUDA_SUCCESS;
        }
    fprintf(stderr, "simcuda: cuDeviceGetAttribute: attribute %d is not simulated\n", attribute);
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- errors ---- */

static const struct error {
    CUresult error;
    const char *name, *text;
} errors[] = {
#define ERROR(name, text) {name, #name, text}
    ERROR(CUDA_SUCCESS, "no error"),
    ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
    ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
          "peer access is not supported between these two devices"),
    ERROR(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
    ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
    ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
    ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
    ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
    ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    ERROR(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
    ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          "operation not permitted when stream is capturing"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
          "operation failed due to a previous error during capture"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE,
          "operation would result in a merge of separate capture sequences"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
          "capture was not ended in the same stream as it began"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "capturing stream has unjoined work"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
          "dependency created on uncaptured work in another stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
          "operation would make the legacy stream depend on a capturing blocking stream"),
    ERROR(CUDA_ERROR_CAPTURED_EVENT,
          "operation not permitted on an event last recorded in a capturing stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
          "attempt to terminate a thread-local capture sequence from another thread"),
    ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
#undef ERROR
};

static const struct error *find_error(CUresult error) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].error == error)
            return &errors[i];
    return NULL;
}

CUresult sim_cuGetErrorName(CUresult error, const char **name) {
    const struct error *e = find_error(error);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = e ? e->name : NULL;
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGetErrorString(CUresult error, const char **text) {
    const struct error *e = find_error(error);
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = e ? e->text : NULL;
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
