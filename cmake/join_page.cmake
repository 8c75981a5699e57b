# SPDX-License-Identifier: Apache-2.0
# cmake -DFOLDER=src/report/page -DD3=d3.min.js -DOUTPUT=page_template.cc -P join_page.cmake
# The parts, in the order in which the page reads them: later ones use earlier ones.
set(parts text data chart roofs table overview ladder roofline operations timeline ranks modules memory prediction inference
    training bench comparison page)

set(script "")
foreach(part ${parts})
  file(READ ${FOLDER}/${part}.js text)
  string(APPEND script "${text}")
endforeach()
file(READ ${FOLDER}/page.html page)
file(READ ${FOLDER}/page.css style)
file(READ ${FOLDER}/d3_licence.txt licence)
file(READ ${D3} d3)
string(REPLACE "@RIDGE_STYLE@" "${style}" page "${page}")
string(REPLACE "@RIDGE_D3@" "/*\n${licence}*/\n${d3}" page "${page}")
string(REPLACE "@RIDGE_SCRIPT@" "${script}" page "${page}")
file(WRITE ${OUTPUT} "// Made by cmake/join_page.cmake.
#include \"report/report_page.h\"
namespace ridge::report {
const std::string_view kPageTemplate = R\"ridge_page(${page})ridge_page\";
}  // namespace ridge::report
")
