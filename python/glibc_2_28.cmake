# Lets a library that is linked on a system with a newer glibc run with glibc 2.28: what the tag manylinux_2_28 promises.
#
#   distwar_for_glibc_2_28(<target>)
#
# A newer glibc keeps the functions that 2.28 has under their old versions, but the linker takes the new ones: 2.34, for
# example, gave new versions to threads and dlopen when it moved them into libc.so.6. Here the linker sees, in place of
# glibc's libraries, libraries of the same names that hold each function under its last version in 2.28, and in the
# library where 2.28 has it, as its loader demands. A function that came later is undefined for the linker.

# The functions of the library `name` that 2.28 can have: sets functions, last_FUNCTION (the version) and, for those that
# have a version after 2.28 too, newer_FUNCTION.
macro(distwar_glibc_functions name)
  execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=${name} OUTPUT_VARIABLE path
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_NM} -D --defined-only ${path} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[A-Za-z0-9_]+@+GLIBC_2\\.[0-9.]+" symbols "${symbols}")
  foreach(symbol IN LISTS symbols)
    string(REGEX MATCH "(.*[^@])@+GLIBC_(.*)" _ "${symbol}")
    set(function ${CMAKE_MATCH_1})
    set(version ${CMAKE_MATCH_2})
    if(version VERSION_GREATER 2.28)
      set(newer_${function} ON)
    elseif(NOT DEFINED last_${function})
      list(APPEND functions ${function})
      set(last_${function} ${version})
    elseif(version VERSION_GREATER last_${function})
      set(last_${function} ${version})
    endif()
  endforeach()
endmacro()

# Builds the stand-in for the library `name`; `out` is its path.
function(distwar_glibc_stand_in name out)
  set(moved_to_libc "^__libc_start_main$") # from this library, or new in it
  if(name STREQUAL libpthread.so.0)
    set(moved_to_libc "^_*(pthread|sem|call|cnd|mtx|thrd|tss)_")
  elseif(name STREQUAL libdl.so.2)
    set(moved_to_libc "^dl")
  elseif(name STREQUAL librt.so.1)
    set(moved_to_libc "^_*(aio|lio|mq|shm|timer)_")
  endif()
  distwar_glibc_functions(${name})
  set(own ${functions})
  if(NOT name STREQUAL libc.so.6)
    distwar_glibc_functions(libc.so.6)
  endif()
  foreach(function IN LISTS functions)
    set(here OFF)
    if(newer_${function} AND NOT name STREQUAL libm.so.6) # moved into libc
      if(function MATCHES "${moved_to_libc}")
        set(here ON)
      endif()
    elseif(function IN_LIST own AND NOT function MATCHES "^totalorder") # it takes pointers since 2.31
      set(here ON)
    endif()
    if(here)
      string(APPEND source ".globl ${function}\n")
      if(function MATCHES "^std(in|out|err)$") # a program copies them
        string(APPEND source ".data\n.type ${function}, @object\n.size ${function}, 8\n${function}: .quad 0\n.text\n")
      else()
        string(APPEND source ".type ${function}, @function\n${function}: ret\n")
      endif()
      string(APPEND of_${last_${function}} " ${function};")
      list(APPEND versions ${last_${function}})
    endif()
  endforeach()
  string(APPEND source ".section .note.GNU-stack\n")
  list(REMOVE_DUPLICATES versions)
  foreach(version IN LISTS versions)
    string(APPEND map "GLIBC_${version} {${of_${version}} };\n")
  endforeach()
  set(stand_in ${CMAKE_CURRENT_BINARY_DIR}/glibc_2_28/${name})
  file(WRITE ${stand_in}.s "${source}")
  file(WRITE ${stand_in}.map "${map}")
  execute_process(COMMAND ${CMAKE_C_COMPILER} -shared -nostdlib -Wl,-soname,${name}
                          -Wl,--version-script=${stand_in}.map ${stand_in}.s -o ${stand_in}
                  COMMAND_ERROR_IS_FATAL ANY)
  set(${out} ${stand_in} PARENT_SCOPE)
endfunction()

function(distwar_for_glibc_2_28 target)
  foreach(name libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1)
    distwar_glibc_stand_in(${name} stand_in)
    list(APPEND stand_ins ${stand_in})
  endforeach()
  # As options they come before the compiler's own libraries. A static libstdc++ would need the glibc of its compiler.
  target_link_options(${target} PRIVATE LINKER:--no-as-needed ${stand_ins} -l:libstdc++.so.6 -l:libgcc_s.so.1
                      LINKER:--as-needed)
  # Until glibc 2.33 headers call these by other names, with the number of the struct.
  set(stat ${CMAKE_CURRENT_BINARY_DIR}/glibc_2_28/stat.c)
  file(WRITE ${stat} "struct stat;\nint __fxstat(int, int, struct stat *);\n"
                     "int fstat(int file, struct stat *to) { return __fxstat(1, file, to); }\n"
                     "int __fxstatat(int, int, const char *, struct stat *, int);\n"
                     "int fstatat(int at, const char *path, struct stat *to, int flags) {\n"
                     "    return __fxstatat(1, at, path, to, flags);\n}\n")
  foreach(name stat lstat)
    string(REPLACE stat xstat old __${name})
    file(APPEND ${stat} "int ${old}(int, const char *, struct stat *);\n"
                        "int ${name}(const char *path, struct stat *to) { return ${old}(1, path, to); }\n")
  endforeach()
  target_sources(${target} PRIVATE ${stat})
  # Since 2.34 __libc_start_main finds a program's constructors itself; until then it is given a function that runs them.
  get_target_property(type ${target} TYPE)
  if(type STREQUAL EXECUTABLE)
    set(start ${CMAKE_CURRENT_BINARY_DIR}/glibc_2_28/start.c)
    file(WRITE ${start} "typedef void call(int, char **, char **);\n"
                        "#define HIDDEN __attribute__((visibility(\"hidden\")))\n"
                        "extern call *const __init_array_start[] HIDDEN, *const __init_array_end[] HIDDEN;\n"
                        "static void construct(int argc, char **argv, char **variables) {\n"
                        "    for (call *const *f = __init_array_start; f < __init_array_end; f++)\n"
                        "        (*f)(argc, argv, variables);\n}\n"
                        "typedef int program(int, char **, char **);\n"
                        "int __real___libc_start_main(program *, int, char **, call *, void *, void *, void *);\n"
                        "int __wrap___libc_start_main(program *, int, char **, call *, void *, void *, void *);\n"
                        "int __wrap___libc_start_main(program *main, int argc, char **argv, call *none, void *end,\n"
                        "                             void *loader_end, void *stack) {\n    (void)none;\n"
                        "    return __real___libc_start_main(main, argc, argv, construct, end, loader_end, stack);\n}\n")
    target_sources(${target} PRIVATE ${start})
    target_link_options(${target} PRIVATE LINKER:--wrap=__libc_start_main,--allow-shlib-undefined)
  endif()
  # gcc 8's libstdc++ has the older of these, and not the second.
  set(wait _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE)
  set(gcc_8 ${CMAKE_CURRENT_BINARY_DIR}/glibc_2_28/gcc_8.c)
  file(WRITE ${gcc_8} "__asm__(\".symver wait_of_gcc_8, ${wait}@GLIBCXX_3.4.11\");\n"
                      "void wait_of_gcc_8(void *, void *);\nvoid __wrap_${wait}(void *, void *);\n"
                      "void __wrap_${wait}(void *condition, void *lock) { wait_of_gcc_8(condition, lock); }\n"
                      "void _ZSt17__throw_bad_allocv(void);\nvoid _ZSt28__throw_bad_array_new_lengthv(void);\n"
                      "void _ZSt28__throw_bad_array_new_lengthv(void) { _ZSt17__throw_bad_allocv(); }\n")
  target_sources(${target} PRIVATE ${gcc_8})
  target_link_options(${target} PRIVATE LINKER:--wrap=${wait})
  # A C++ header of gcc 13 or later refers to this function of its libstdc++. It prepares std::cout, which no kernel's
  # host code uses.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/glibc_2_28/iostream.c "void _ZSt21ios_base_library_initv(void) {}\n")
    target_sources(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/glibc_2_28/iostream.c)
  endif()
endfunction()
