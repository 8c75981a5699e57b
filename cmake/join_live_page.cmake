# SPDX-License-Identifier: Apache-2.0
# cmake -DSHARED=src/report/page -DFOLDER=src/http/page -DD3=d3.min.js -DOUTPUT=live_page.cc -P join_live_page.cmake
# The parts, in the order in which the page reads them: those of the report page, then its own.
set(script "")
foreach(part ${SHARED}/text ${SHARED}/chart ${SHARED}/roofs ${FOLDER}/server ${FOLDER}/chat ${FOLDER}/engine ${FOLDER}/live)
  file(READ ${part}.js text)
  string(APPEND script "${text}")
endforeach()
file(READ ${FOLDER}/live.html page)
file(READ ${SHARED}/page.css style)
file(READ ${FOLDER}/live.css own_style)
file(READ ${SHARED}/d3_licence.txt licence)
file(READ ${D3} d3)
file(WRITE ${OUTPUT} "// Made by cmake/join_live_page.cmake.
#include \"http/live_page.h\"
namespace ridge::http {
const std::string_view kLivePage = R\"ridge_page(${page})ridge_page\";
const std::string_view kLiveStyle = R\"ridge_page(${style}${own_style})ridge_page\";
const std::string_view kLiveScript = R\"ridge_page(/*
${licence}*/
${d3}
'use strict';
(function () {
${script}
})();
)ridge_page\";
}  // namespace ridge::http
")
