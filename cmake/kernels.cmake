# Compiles the same .cu sources either with nvcc or, as C++, against simt.
#
#   distwar_target(<target>)   sets warnings, sanitizers and the kernel compiler for all sources of <target>

if(NOT DISTWAR_BACKEND MATCHES "^(simt|cuda)$")
  message(FATAL_ERROR "DISTWAR_BACKEND is '${DISTWAR_BACKEND}'; it must be simt or cuda")
endif()

if(DISTWAR_BACKEND STREQUAL cuda)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES) # this machine's GPUs, or sm_90 if there is none
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE failed)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]" CMAKE_CUDA_ARCHITECTURES "${capabilities}")
    list(REMOVE_DUPLICATES CMAKE_CUDA_ARCHITECTURES)
    list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "\\." "")
    if(failed OR NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 90)
    endif()
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  find_package(CUDAToolkit REQUIRED)
endif()

# Warnings are errors with gcc 12 and nvcc 13, which the tests use. Other compilers have other warnings.
set(distwar_warnings -Wall -Wextra -Wpedantic)
set(distwar_kernel_options -Xcompiler=-Wall,-Wextra)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\.")
  list(APPEND distwar_warnings -Werror)
  if(CMAKE_CUDA_COMPILER_VERSION MATCHES "^13\\.")
    set(distwar_kernel_options -Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Werror)
  endif()
endif()
set(distwar_sanitizers)
if(DISTWAR_SANITIZE)
  # Without the checks of pointers that AddressSanitizer makes too: they take a third of a kernel's compilation.
  set(distwar_sanitizers -fsanitize=address,undefined -fno-sanitize=null,object-size,pointer-overflow,vptr
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
endif()

function(distwar_target target)
  target_link_libraries(${target} PUBLIC distwar::distwar)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:${distwar_warnings}>
                                           $<$<COMPILE_LANGUAGE:C,CXX>:${distwar_sanitizers}>)
  target_link_options(${target} PUBLIC ${distwar_sanitizers})
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cu$")
  if(DISTWAR_BACKEND STREQUAL simt)
    if(sources)
      set_source_files_properties(${sources} PROPERTIES LANGUAGE CXX) # compiled with -x c++
    endif()
    # Pragmas that unroll loops are for nvcc.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-unknown-pragmas>)
    target_link_libraries(${target} PUBLIC simt)
  else()
    target_compile_options(
      ${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${distwar_kernel_options}>)
    target_link_libraries(${target} PUBLIC CUDA::cudart_static)
  endif()
endfunction()

# distwar_shared_library(<target> <map>): exports the names that the map lists, and no others: neither our kernels nor
# the runtime that is linked in shall meet those of a host program. Until their 1.0 the soname is MAJOR.MINOR.
function(distwar_shared_library target map)
  get_filename_component(map ${map} ABSOLUTE)
  target_link_options(${target} PRIVATE LINKER:--version-script=${map} LINKER:--no-undefined)
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
  if(NOT DISTWAR_UNVERSIONED_LIBRARIES) # a Python package holds its own
    string(REGEX REPLACE "[.][0-9]+$" "" version ${gs_version})
    set_target_properties(${target} PROPERTIES VERSION ${version} SOVERSION ${version})
  endif()
endfunction()
