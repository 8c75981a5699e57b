# SPDX-License-Identifier: Apache-2.0
# ridge_room(NAME DEPENDS rooms... [EXECUTABLE program]): one room of src/ as a target ridge_NAME.

# What each room takes from outside; a room not listed takes what its rooms carry (fmt through base).
set(RIDGE_EXTERNAL_base fmt::fmt ${RIDGE_HWLOC})
set(RIDGE_EXTERNAL_files nlohmann_json::nlohmann_json ZLIB::ZLIB ${RIDGE_ZSTD} SQLite::SQLite3)
set(RIDGE_EXTERNAL_text ${RIDGE_PCRE2} ${RIDGE_UTF8PROC} nlohmann_json::nlohmann_json)
set(RIDGE_EXTERNAL_models nlohmann_json::nlohmann_json)
set(RIDGE_EXTERNAL_cost nlohmann_json::nlohmann_json)
set(RIDGE_EXTERNAL_record nlohmann_json::nlohmann_json)
set(RIDGE_EXTERNAL_report nlohmann_json::nlohmann_json)
set(RIDGE_EXTERNAL_backends DNNL::dnnl ${RIDGE_HWY} nlohmann_json::nlohmann_json)
if(RIDGE_HAS_CUDA)
  list(APPEND RIDGE_EXTERNAL_backends ridge_cuda_kernels)
endif()
set(RIDGE_EXTERNAL_http Boost::headers Threads::Threads nlohmann_json::nlohmann_json)
set(RIDGE_EXTERNAL_apps CLI11::CLI11 nlohmann_json::nlohmann_json)

# For code that takes longer to compile than to run: tests, and the rooms that build graphs, think about them and print.
set(RIDGE_QUICK_BUILD -O1)
foreach(room graph ops models plan cost record passes report train serve measure planning bench http courses apps)
  set(RIDGE_OPTIONS_${room} ${RIDGE_QUICK_BUILD})
endforeach()

# Parsed once for all rooms: what most files include. The files name what they use all the same; the
# debug preset builds without.
set(RIDGE_PRECOMPILED <algorithm> <array> <bit> <charconv> <cmath> <cstdint> <cstring> <filesystem>
    <fstream> <functional> <limits> <map> <memory> <numeric> <optional> <set> <span> <string>
    <string_view> <utility> <vector> <fmt/format.h>)
# Whose precompiled headers a target uses: GCC 13 and later refuse those of another -O. Each owner is declared before its
# users.
function(ridge_precompile NAME OWNER)
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS)
    return()
  endif()
  if(NAME STREQUAL OWNER)
    target_precompile_headers(${NAME} PRIVATE ${RIDGE_PRECOMPILED} ${ARGN})
  else()
    target_precompile_headers(${NAME} REUSE_FROM ${OWNER})
  endif()
endfunction()

# With RIDGE_TSAN, the rooms whose threads speak to each other, and the tests, are watched. The sanitizer does not see how
# OpenMP's threads, in the kernels, wait for each other.
set(RIDGE_WATCHED_ROOMS runtime serve http)
function(ridge_watch TARGET)
  if(RIDGE_TSAN)
    target_compile_options(${TARGET} PRIVATE -fsanitize=thread -fno-omit-frame-pointer -g
      # Asio has a fence that the sanitizer does not see.
      $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
    set_target_properties(${TARGET} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

function(ridge_room NAME)
  cmake_parse_arguments(ROOM "" "EXECUTABLE" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${NAME}/*.cc)
  # Without nvcc one file stands for the CUDA backend and says that it is missing.
  set(absent ${sources})
  list(FILTER absent INCLUDE REGEX "/backends/cuda/cuda_absent\\.cc$")
  list(FILTER sources EXCLUDE REGEX "/backends/cuda/cuda_absent\\.cc$")
  if(NOT RIDGE_HAS_CUDA)
    # Its passes are there all the same, since plans for GPUs run them, and the text of generated kernels, which people read.
    set(passes ${sources})
    list(FILTER passes INCLUDE REGEX "/backends/cuda/(passes/|pointwise_source\\.cc$)")
    list(FILTER sources EXCLUDE REGEX "/(backends|courses)/cuda/")
    list(APPEND sources ${absent} ${passes})
  endif()
  if(NOT RIDGE_COURSES)
    list(FILTER sources EXCLUDE REGEX "/apps/demo\\.cc$")
  endif()
  set(precompiled_for ridge_base)
  if(RIDGE_OPTIONS_${NAME})
    set(precompiled_for ridge_graph)
  endif()
  if(NOT sources)
    add_library(ridge_${NAME} INTERFACE)
    set(scope INTERFACE)
  else()
    set(scope PUBLIC)
    if(ROOM_EXECUTABLE)
      # The subcommands are a library too, so that tests can call them.
      set(main ${CMAKE_SOURCE_DIR}/src/${NAME}/main.cc)
      list(REMOVE_ITEM sources ${main})
      add_executable(${ROOM_EXECUTABLE} ${main})
      set_target_properties(${ROOM_EXECUTABLE} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
      target_link_libraries(${ROOM_EXECUTABLE} PRIVATE ridge_${NAME})
      target_compile_options(${ROOM_EXECUTABLE} PRIVATE ${RIDGE_OPTIONS_${NAME}})
      ridge_precompile(${ROOM_EXECUTABLE} ${precompiled_for})
    endif()
    add_library(ridge_${NAME} STATIC ${sources})
    target_compile_options(ridge_${NAME} PRIVATE ${RIDGE_OPTIONS_${NAME}})
    if(NAME IN_LIST RIDGE_WATCHED_ROOMS)
      ridge_watch(ridge_${NAME})
    endif()
    ridge_precompile(ridge_${NAME} ${precompiled_for})
  endif()
  target_link_libraries(ridge_${NAME} ${scope} ridge_flags)
  foreach(room ${ROOM_DEPENDS})
    target_link_libraries(ridge_${NAME} ${scope} ridge_${room})
  endforeach()
  if(RIDGE_EXTERNAL_${NAME})
    target_link_libraries(ridge_${NAME} ${scope} ${RIDGE_EXTERNAL_${NAME}})
  endif()
endfunction()
