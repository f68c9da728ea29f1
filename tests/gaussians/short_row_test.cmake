# SPDX-License-Identifier: MIT
# A row of a list that lacks an entry must not compile: HEADER is compiled as it is, and without the last entry of the row
# that begins with ROW. COMPILE: the compiler with its options.
get_filename_component(name ${HEADER} NAME)
file(READ ${HEADER} with)
string(REGEX REPLACE "(X\\(${ROW}[a-z0-9_\", ]*), [a-z_]+\\)" "\\1)" without "${with}")
foreach(way with without)
  file(WRITE ${FOLDER}/${way}/${name} "${${way}}")
  execute_process(COMMAND ${COMPILE} -I${FOLDER}/${way} -fsyntax-only ${FOLDER}/${way}/${name}
                  RESULT_VARIABLE fails_${way} ERROR_VARIABLE errors_${way})
endforeach()
if(fails_with OR NOT errors_without MATCHES "requires [0-9]+ arguments|too few arguments")
  message(FATAL_ERROR "with: ${errors_with}\nwithout: ${errors_without}")
endif()
