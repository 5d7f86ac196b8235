# The headers of LLVM and the path of its library, which is opened at run time and never linked.
# Sets JITC_LLVM_INCLUDE_DIR and JITC_LLVM_LIBRARY for JITC_LLVM_VERSION, the newest one found
# unless given.

set(versions 21 20 19 18 17 16 15 14)
set(JITC_LLVM_VERSION "" CACHE STRING "LLVM whose headers are used; empty: the newest of ${versions}")
if(JITC_LLVM_VERSION)
  set(versions ${JITC_LLVM_VERSION})
endif()

foreach(version ${versions})
  find_program(config llvm-config-${version} NO_CACHE)
  set(include_dir /usr/lib/llvm-${version}/include)
  set(library_dir /usr/lib/llvm-${version}/lib)
  if(config)
    execute_process(COMMAND ${config} --includedir OUTPUT_VARIABLE include_dir
                    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND ${config} --libdir OUTPUT_VARIABLE library_dir
                    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  endif()
  find_path(include llvm-c/Core.h PATHS ${include_dir} NO_DEFAULT_PATH NO_CACHE)
  find_library(library NAMES LLVM-${version} LLVM PATHS ${library_dir} NO_DEFAULT_PATH NO_CACHE)
  if(include AND library)
    set(JITC_LLVM_INCLUDE_DIR ${include})
    file(REAL_PATH ${library} JITC_LLVM_LIBRARY) # the name without -dev stays when that is removed
    message(STATUS "LLVM ${version}: ${JITC_LLVM_INCLUDE_DIR}, ${JITC_LLVM_LIBRARY}")
    break()
  endif()
  unset(config)
  unset(include)
  unset(library)
endforeach()

if(NOT JITC_LLVM_LIBRARY)
  string(REPLACE ";" ", " versions "${versions}")
  message(FATAL_ERROR "LLVM (${versions}) not found: apt-get install llvm-19-dev, or -DJITC_LLVM=OFF")
endif()
