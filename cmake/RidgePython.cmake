# SPDX-License-Identifier: Apache-2.0
# The Python module: built where tools/python_tools.sh has put nanobind. Its objects are those of the program; the
# stable ABI makes one module for Python 3.10 and newer, whichever Python builds it.
set(RIDGE_PYTHON AUTO CACHE STRING "The Python module: AUTO (where build-python has nanobind), ON or OFF")
set(RIDGE_PYTHON_TOOLS ${CMAKE_SOURCE_DIR}/build-python CACHE PATH "The environment that tools/python_tools.sh makes")

set(RIDGE_HAS_PYTHON OFF)
set(RIDGE_NO_PYTHON "")
if(RIDGE_PYTHON STREQUAL OFF)
  set(RIDGE_NO_PYTHON "it is off")
elseif(RIDGE_TSAN OR (RIDGE_SANITIZE AND NOT RIDGE_PYTHON STREQUAL ON))
  set(RIDGE_NO_PYTHON "a Python without sanitizers would load it")  # with ON, by LD_PRELOAD of libasan.so
elseif(NOT EXISTS ${RIDGE_PYTHON_TOOLS}/bin/python)
  set(RIDGE_NO_PYTHON "tools/python_tools.sh has not run, or found no network")
else()
  set(Python_EXECUTABLE ${RIDGE_PYTHON_TOOLS}/bin/python)
  find_package(Python 3.10 QUIET COMPONENTS Interpreter Development.Module)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT Python_Development.Module_FOUND)
    set(RIDGE_NO_PYTHON "there are no headers of Python (Debian: python3-dev)")
  elseif(NOT nanobind_ROOT)
    set(RIDGE_NO_PYTHON "${RIDGE_PYTHON_TOOLS} has no nanobind")
  else()
    set(RIDGE_HAS_PYTHON ON)
  endif()
endif()
if(NOT RIDGE_HAS_PYTHON)
  if(RIDGE_PYTHON STREQUAL ON)
    message(FATAL_ERROR "RIDGE_PYTHON is ON, but ${RIDGE_NO_PYTHON}")
  endif()
  message(STATUS "The Python module is not built: ${RIDGE_NO_PYTHON}")
  return()
endif()

set(SKBUILD_SOSABI abi3)  # the suffix of the file; CMake 3.25 does not know it
find_package(nanobind CONFIG REQUIRED)
file(GLOB python_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/python/*.cc)
nanobind_add_module(ridge_python BACKEND_MODULE nanobind_backend NB_SUPPRESS_WARNINGS ${python_sources})
# The package lies in the build folder as it will be installed: PYTHONPATH=build/python.
set(RIDGE_PYTHON_PACKAGE ${CMAKE_BINARY_DIR}/python/ridge)
set_target_properties(ridge_python PROPERTIES OUTPUT_NAME _ridge LIBRARY_OUTPUT_DIRECTORY ${RIDGE_PYTHON_PACKAGE}
                      DISABLE_PRECOMPILE_HEADERS ON)
target_compile_definitions(ridge_python PRIVATE RIDGE_VERSION="${PROJECT_VERSION}" $<$<BOOL:${RIDGE_COURSES}>:RIDGE_COURSES>)
target_compile_options(ridge_python PRIVATE ${RIDGE_QUICK_BUILD})
target_link_libraries(ridge_python PRIVATE ridge_bench ridge_report $<$<BOOL:${RIDGE_COURSES}>:ridge_courses>)

file(GLOB python_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/python/ridge/*)
foreach(file ${python_files})
  get_filename_component(name ${file} NAME)
  if(NOT IS_DIRECTORY ${file})
    configure_file(${file} ${RIDGE_PYTHON_PACKAGE}/${name} COPYONLY)
  endif()
endforeach()
# Type stubs, from the docstrings and signatures of the module.
set(RIDGE_PYTHON_ENVIRONMENT PYTHONPATH=${CMAKE_BINARY_DIR}/python)
if(RIDGE_SANITIZE)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libasan.so OUTPUT_VARIABLE asan
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  list(APPEND RIDGE_PYTHON_ENVIRONMENT LD_PRELOAD=${asan} ASAN_OPTIONS=detect_leaks=0)
endif()
add_custom_command(TARGET ridge_python POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E env ${RIDGE_PYTHON_ENVIRONMENT}
          ${Python_EXECUTABLE} -m nanobind.stubgen -q -P -m ridge._ridge -o ${RIDGE_PYTHON_PACKAGE}/_ridge.pyi
  COMMENT "Writing the stubs of the Python module")
