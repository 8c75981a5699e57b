# SPDX-License-Identifier: Apache-2.0
# Joins the files of src/report/page and D3 into one page, as a string of the room `report`.
find_file(RIDGE_D3 d3.min.js PATHS /usr/share/nodejs/d3/dist REQUIRED)

set(page_folder ${CMAKE_SOURCE_DIR}/src/report/page)
set(page_source ${CMAKE_BINARY_DIR}/page_template.cc)
file(GLOB page_files CONFIGURE_DEPENDS ${page_folder}/*)
add_custom_command(
  OUTPUT ${page_source}
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${page_folder} -DD3=${RIDGE_D3} -DOUTPUT=${page_source}
          -P ${CMAKE_SOURCE_DIR}/cmake/join_page.cmake
  DEPENDS ${page_files} ${RIDGE_D3} ${CMAKE_SOURCE_DIR}/cmake/join_page.cmake
  COMMENT "Joining the report page")
target_sources(ridge_report PRIVATE ${page_source})
