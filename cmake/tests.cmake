# How tests are compiled and found, for all folders with tests.
find_package(GTest REQUIRED)
include(GoogleTest)

# Tests are compiled with -O0, in half of the time that -O1 takes: most of a test's time is spent in libraries and
# programs, which are optimised. Sanitizers are for these too, and for tests whose sources are kernels (KERNELS): the
# others are compiled without, in a fifth of the time. nvcc compiles tests like programs.
#
# The headers that take most of a test's compilation are compiled once for tests of a kind, and sources of a program
# ten at a time, in half of the time: most of it goes into the same templates. Sources that
# share names put them into named namespaces. (ccache keeps nothing that uses precompiled headers, and keeps more of smaller sources.)
set(sources_at_a_time 10)
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
  set(sources_at_a_time 1)
endif()
set(test_options_host $<$<COMPILE_LANGUAGE:C,CXX>:-O0>)
set(test_options_kernels ${test_options_host})
if(DISTWAR_SANITIZE)
  list(APPEND test_options_host $<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize=all>)
endif()
file(CONFIGURE OUTPUT precompiled.cpp CONTENT "int main() {}\n")
set(kinds_of_tests host)
if(DISTWAR_SANITIZE)
  list(APPEND kinds_of_tests kernels)
endif()
foreach(kind IN LISTS kinds_of_tests)
  add_executable(precompiled_${kind} EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(precompiled_${kind} PRIVATE GTest::gtest)
  target_precompile_headers(precompiled_${kind} PRIVATE <algorithm> <array> <cmath> <cstring> <filesystem> <fstream>
                            <functional> <limits> <map> <memory> <random> <set> <sstream> <string> <vector>
                            <gtest/gtest.h>)
  distwar_target(precompiled_${kind})
  target_compile_options(precompiled_${kind} PRIVATE ${test_options_${kind}})
endforeach()

# test_is_optimised(<source>): a source of this folder's tests that takes long, or much stack, with -O0.
function(test_is_optimised source)
  if(DISTWAR_BACKEND STREQUAL simt)
    set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS -O1)
  endif()
endfunction()

# `make gpu-compile`: nvcc compiles the tests' kernels and none of their host code, which takes twice as long and which
# the preset cpu compiles. A test program becomes a library of its .cu sources with code for a GPU; without any it is not
# built.
option(DISTWAR_KERNELS_ONLY "compile only the kernels of tests, with nvcc: no test can run" OFF)
function(add_kernels_only name)
  set(kernels)
  foreach(source IN LISTS ARGN)
    if(source MATCHES "[.]cu$")
      file(STRINGS ${source} device_code LIMIT_COUNT 1 REGEX "__global__|__device__|launch_|<distwar/")
      if(device_code)
        list(APPEND kernels ${source})
      endif()
    endif()
  endforeach()
  if(kernels)
    add_library(${name} OBJECT ${kernels})
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-fatbin>)
  else()
    add_library(${name} OBJECT EXCLUDE_FROM_ALL ${ARGN})
  endif()
endfunction()

# distwar_test(<name> <sources...> [KERNELS] [LIBRARIES <targets...>])
#
# One GoogleTest program of that name; each of its tests becomes a ctest test. A test that skips itself (GTEST_SKIP)
# is counted as skipped.
function(distwar_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "KERNELS" "" "LIBRARIES")
  if(arg_KERNELS AND DISTWAR_SANITIZE) # else their options are the same
    set(kind kernels)
  else()
    set(kind host)
  endif()
  if(DISTWAR_KERNELS_ONLY)
    add_kernels_only(${name} ${arg_UNPARSED_ARGUMENTS})
  else()
    add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  endif()
  target_link_libraries(${name} PRIVATE GTest::gtest GTest::gtest_main ${arg_LIBRARIES})
  distwar_target(${name})
  if(DISTWAR_KERNELS_ONLY)
    return()
  endif()
  target_compile_options(${name} PRIVATE ${test_options_${kind}})
  set(c_sources ${arg_UNPARSED_ARGUMENTS})
  list(FILTER c_sources INCLUDE REGEX "[.]c$")
  if(c_sources)
    set_source_files_properties(${c_sources} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  target_precompile_headers(${name} REUSE_FROM precompiled_${kind})
  list(LENGTH arg_UNPARSED_ARGUMENTS sources)
  if(sources GREATER 1 AND sources_at_a_time GREATER 1)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${sources_at_a_time})
  endif()
  set(filter)
  if(DISTWAR_SANITIZE)
    target_compile_definitions(${name} PRIVATE DISTWAR_SANITIZE)
    string(JOIN ":" excluded ${not_sanitized}) # tests/CMakeLists.txt
    set(filter TEST_FILTER -${excluded})
  endif()
  gtest_discover_tests(${name} ${filter} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
endfunction()
