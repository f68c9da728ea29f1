# simt_target(<target>): compiles the .cu sources of <target> as C++ for the CPU, unchanged as nvcc would take them.
#
# Each is rewritten by launch_syntax.py to a .cpp in the build folder, which includes simt/nvcc.h first, and so are the
# headers that it includes. Messages and debuggers name the originals.
function(simt_target target)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(folders $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(NOT source MATCHES "\\.cu$")
      continue()
    endif()
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
    cmake_path(GET path FILENAME name)
    cmake_path(GET path PARENT_PATH folder)
    set(rewritten ${CMAKE_CURRENT_BINARY_DIR}/${target}.simt/${name}.cpp)
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${target}.simt)
    set(script ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/launch_syntax.py)
    add_custom_command(
      OUTPUT ${rewritten}
      COMMAND ${Python3_EXECUTABLE} ${script} ${path} -o ${rewritten} -MF ${rewritten}.d
              "$<$<BOOL:${folders}>:-I$<JOIN:${folders},;-I>>"
      DEPENDS ${path} ${script}
      DEPFILE ${rewritten}.d
      COMMAND_EXPAND_LISTS VERBATIM)
    set_source_files_properties(${rewritten} PROPERTIES COMPILE_OPTIONS "-include;simt/nvcc.h;-iquote;${folder}")
    list(TRANSFORM sources REPLACE "^${source}$" "${rewritten}")
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${sources}")
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-unknown-pragmas>) # unroll
  target_link_libraries(${target} PRIVATE distwar::simt distwar::distwar)
endfunction()
