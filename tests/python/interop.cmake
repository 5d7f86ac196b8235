# The package python/ with real libraries, which tools/interop.sh installs: one row is a test file, and
# the folders of libraries that it is run with. Skipped, and says so, where one is not installed.
# jitc_interop_test(name module library... [SIMULATED])
function(jitc_interop_test name module)
  cmake_parse_arguments(ARG "SIMULATED" "" "" ${ARGN})
  set(environment "CC=${CMAKE_C_COMPILER}" "JITC_SANITIZE=${JITC_SANITIZE}"
    "JITC_CACHE_DIR=${JITC_TEST_CACHE}/interop.${name}")
  if(ARG_SIMULATED)
    list(APPEND environment JITC_LIBCUDA=$<TARGET_FILE:simcuda> JITC_LIBNVRTC=$<TARGET_FILE:simcuda>)
  endif()
  add_test(NAME interop.${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/interop.py
    ${PROJECT_BINARY_DIR}/tests/python/package interop_${module}
    ${ARG_UNPARSED_ARGUMENTS})
  set_tests_properties(interop.${name} PROPERTIES
    TIMEOUT 900 LABELS interop SKIP_RETURN_CODE 77
    FIXTURES_REQUIRED "python_package;cache"
    ENVIRONMENT "${environment}"
    FAIL_REGULAR_EXPRESSION "Sanitizer:;runtime error:")
endfunction()

# Those that take longest first.
jitc_interop_test(tensorflow tensorflow numpy tensorflow)
jitc_interop_test(torch torch numpy torch)
jitc_interop_test(jax jax numpy jax)
jitc_interop_test(torch_old torch numpy_old torch_old)
jitc_interop_test(warp warp numpy warp)
jitc_interop_test(numpy numpy numpy)
jitc_interop_test(numpy_old numpy numpy_old)
jitc_interop_test(tvm_ffi tvm_ffi numpy tvm_ffi)
jitc_interop_test(mlx mlx numpy mlx)
if(JITC_CUDA)
  jitc_interop_test(simulated_tensorflow simulated numpy tensorflow SIMULATED)
  jitc_interop_test(simulated simulated numpy torch SIMULATED)
endif()
