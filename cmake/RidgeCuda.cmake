# SPDX-License-Identifier: Apache-2.0
# The CUDA backend: built where nvcc is found. The program needs neither a driver nor CUDA's libraries to start: the
# runtime is linked statically, cuBLASLt, NVRTC and CUPTI are opened when they are used.
set(RIDGE_CUDA AUTO CACHE STRING "The CUDA backend: AUTO (where nvcc is found), ON or OFF")
option(RIDGE_CUDA_RELEASE "Also machine code for compute capability 8.0, and PTX for what comes after" OFF)

set(RIDGE_HAS_CUDA OFF)
if(NOT RIDGE_CUDA STREQUAL OFF)
  # Standard and architectures are given as flags: CMake 3.25 does not know all of them by name.
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  find_program(RIDGE_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(RIDGE_NVCC)
    set(CMAKE_CUDA_COMPILER ${RIDGE_NVCC})
    enable_language(CUDA)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    find_package(CUDAToolkit REQUIRED)
    set(RIDGE_HAS_CUDA ON)
  elseif(RIDGE_CUDA STREQUAL ON)
    message(FATAL_ERROR "RIDGE_CUDA is ON and nvcc was not found")
  endif()
endif()

if(RIDGE_HAS_CUDA)
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/backends/cuda/kernels/*.cu)
  if(RIDGE_COURSES)
    file(GLOB ladder CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/courses/cuda/kernels/*.cu)
    list(APPEND kernels ${ladder})
  endif()
  add_library(ridge_cuda_kernels STATIC ${kernels})
  target_include_directories(ridge_cuda_kernels PUBLIC ${CMAKE_SOURCE_DIR}/src)
  # Hopper's own instructions need the 90a target.
  target_compile_options(ridge_cuda_kernels PRIVATE -gencode=arch=compute_90a,code=sm_90a
    $<$<BOOL:${RIDGE_CUDA_RELEASE}>:-gencode=arch=compute_80,code=[sm_80,compute_80]>
    --threads 1 -Werror all-warnings -Xcompiler=-fPIC,-fvisibility=hidden)
  set_target_properties(ridge_cuda_kernels PROPERTIES CUDA_RUNTIME_LIBRARY Static)
  find_path(RIDGE_CUPTI_INCLUDE cupti.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI/include)
  # Only headers of what is opened at run time.
  target_include_directories(ridge_cuda_kernels SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS} ${RIDGE_CUPTI_INCLUDE})
  target_link_libraries(ridge_cuda_kernels PUBLIC CUDA::cudart_static ${CMAKE_DL_LIBS})
endif()
