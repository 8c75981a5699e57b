# SPDX-License-Identifier: Apache-2.0
# The packages that Ridge uses; packages/debian.txt installs them.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(Boost 1.74 REQUIRED)  # headers alone
find_package(CLI11 REQUIRED)
find_package(dnnl REQUIRED)
find_package(GTest REQUIRED)
find_package(ZLIB REQUIRED)
find_package(SQLite3 REQUIRED)
find_library(RIDGE_ZSTD zstd REQUIRED)
find_path(RIDGE_XXHASH xxhash.h REQUIRED)  # headers alone
find_library(RIDGE_HWLOC hwloc REQUIRED)
find_library(RIDGE_HWY hwy REQUIRED)
find_library(RIDGE_PCRE2 pcre2-8 REQUIRED)
find_library(RIDGE_UTF8PROC utf8proc REQUIRED)
# Ranks on CPUs; the library itself is opened at run time.
find_path(RIDGE_MPI mpi.h PATH_SUFFIXES openmpi PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include)

# One interface target that carries the flags of every room.
add_library(ridge_flags INTERFACE)
target_include_directories(ridge_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
# OpenMP for every room, as precompiled headers serve only files with the same flags.
target_link_libraries(ridge_flags INTERFACE OpenMP::OpenMP_CXX)
# Sources that compile as one share names that may hide each other; each is checked where it compiles alone.
set(RIDGE_COMPILES_ALONE $<NOT:$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>>)
target_compile_options(ridge_flags INTERFACE -Wall -Wextra $<${RIDGE_COMPILES_ALONE}:-Wshadow> -Wnon-virtual-dtor
  $<${RIDGE_COMPILES_ALONE}:-Werror>
  # GCC 12 reports these inside libstdc++ and fmt after inlining sums of strings and fmt::join, wrongly.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds>
  # GCC collects its garbage later, which saves a tenth of the time where headers are long.
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=524288>
  # One set of objects serves the program and the Python module. Hidden, so that calls inside it stay direct.
  -fPIC -fvisibility=hidden -fvisibility-inlines-hidden
  # Same bits on every run and every level: no contraction or reassociation behind our back.
  -ffp-contract=off)
if(RIDGE_SANITIZE)
  target_compile_options(ridge_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer)
  target_link_options(ridge_flags INTERFACE -fsanitize=address,undefined)
endif()
if(RIDGE_TSAN)
  target_link_options(ridge_flags INTERFACE -fsanitize=thread)
endif()
