/* poor_driver.c: a library that has one function of the CUDA driver and one of NVRTC, for
 * test_cuda_absence.c. */
__attribute__((visibility("default"))) int cuInit(unsigned flags);
__attribute__((visibility("default"))) int nvrtcVersion(int *major, int *minor);

int cuInit(unsigned flags) {
    return flags ? 1 : 0;
}
int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return 0;
}
