# SPDX-License-Identifier: Apache-2.0
# Joins the files of src/http/page, parts of src/report/page and D3 into the server's page, as strings of the room `http`.
set(live_folder ${CMAKE_SOURCE_DIR}/src/http/page)
set(live_source ${CMAKE_BINARY_DIR}/live_page.cc)
file(GLOB live_files CONFIGURE_DEPENDS ${live_folder}/*)
add_custom_command(
  OUTPUT ${live_source}
  COMMAND ${CMAKE_COMMAND} -DSHARED=${page_folder} -DFOLDER=${live_folder} -DD3=${RIDGE_D3} -DOUTPUT=${live_source}
          -P ${CMAKE_SOURCE_DIR}/cmake/join_live_page.cmake
  DEPENDS ${live_files} ${page_files} ${RIDGE_D3} ${CMAKE_SOURCE_DIR}/cmake/join_live_page.cmake
  COMMENT "Joining the live page")
target_sources(ridge_http PRIVATE ${live_source})
