# Lets a library that is linked on a system with a newer glibc run with glibc 2.28: what the tag manylinux_2_28 promises.
#
#   distwar_for_glibc_2_28(<target>)
#
# A newer glibc keeps the functions that 2.28 has under their old versions, but the linker takes the new ones: 2.34, for
# example, gave new versions to threads and dlopen when it moved them into libc. Here the linker sees, in place of
# libc.so.6 and libm.so.6, libraries of the same names that hold each function under its last version in 2.28. A function
# that came later is undefined for the linker.

# Builds the stand-in for the library `name`; `out` is its path.
function(distwar_glibc_stand_in name out)
  execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=${name} OUTPUT_VARIABLE path
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_NM} -D --defined-only ${path} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[A-Za-z0-9_]+@+GLIBC_2\\.[0-9.]+" symbols "${symbols}")
  foreach(symbol IN LISTS symbols)
    string(REGEX MATCH "(.*[^@])@+GLIBC_(.*)" _ "${symbol}")
    set(function ${CMAKE_MATCH_1})
    set(version ${CMAKE_MATCH_2})
    # totalorder() takes pointers since 2.31: its old version is another function.
    if(version VERSION_LESS_EQUAL 2.28 AND NOT function MATCHES "^totalorder")
      if(NOT DEFINED last_${function})
        list(APPEND functions ${function})
        set(last_${function} ${version})
      elseif(version VERSION_GREATER last_${function})
        set(last_${function} ${version})
      endif()
    endif()
  endforeach()
  foreach(function IN LISTS functions)
    set(version ${last_${function}})
    string(APPEND source ".globl ${function}\n.type ${function}, @function\n${function}: ret\n")
    string(APPEND of_${version} " ${function};")
    list(APPEND versions ${version})
  endforeach()
  list(REMOVE_DUPLICATES versions)
  foreach(version IN LISTS versions)
    string(APPEND map "GLIBC_${version} {${of_${version}} };\n")
  endforeach()
  string(APPEND source ".section .note.GNU-stack\n")
  set(stand_in ${CMAKE_CURRENT_BINARY_DIR}/glibc_2_28/${name})
  file(WRITE ${stand_in}.s "${source}")
  file(WRITE ${stand_in}.map "${map}")
  execute_process(COMMAND ${CMAKE_C_COMPILER} -shared -nostdlib -Wl,-soname,${name}
                          -Wl,--version-script=${stand_in}.map ${stand_in}.s -o ${stand_in}
                  COMMAND_ERROR_IS_FATAL ANY)
  set(${out} ${stand_in} PARENT_SCOPE)
endfunction()

function(distwar_for_glibc_2_28 target)
  distwar_glibc_stand_in(libc.so.6 libc)
  distwar_glibc_stand_in(libm.so.6 libm)
  # As options they come before the compiler's own libraries. In 2.28 threads, dlopen and shm_open lie in the next three;
  # every later glibc has libraries of these names. A static libstdc++ would need the glibc that it was built with.
  target_link_options(${target} PRIVATE LINKER:--no-as-needed ${libc} ${libm} -l:libpthread.so.0 -l:libdl.so.2
                      -l:librt.so.1 -l:libstdc++.so.6 -l:libgcc_s.so.1)
  # A C++ header of gcc 13 or later refers to this function of its libstdc++. It prepares std::cout, which no kernel's
  # host code uses.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/glibc_2_28/iostream.c "void _ZSt21ios_base_library_initv(void) {}\n")
    target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/glibc_2_28/iostream.c)
  endif()
endfunction()
