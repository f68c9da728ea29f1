# Benchmarks on a GPU by Google Benchmark (libbenchmark-dev). Configure with
#   -DDISTWAR_CCCL_PATH=FOLDER   the folder that holds cub/cub.cuh of a CCCL to compare with, 3.4 or later for
#                                cub::WarpReduceBatched; else the toolkit's own is taken. The Python package
#                                nvidia-cuda-cccl holds one, in nvidia/cu13/include/cccl
#
#   add_google_benchmark(<target> <libraries...>)   from <target>.cu, if the package is installed
set(DISTWAR_CCCL_PATH "" CACHE PATH "folder with the cub/ of a CCCL other than the toolkit's")
if(DISTWAR_CCCL_PATH AND NOT EXISTS ${DISTWAR_CCCL_PATH}/cub/cub.cuh)
  message(FATAL_ERROR "there is no cub/cub.cuh in DISTWAR_CCCL_PATH (${DISTWAR_CCCL_PATH})")
endif()
find_package(benchmark QUIET)

function(add_google_benchmark target)
  if(NOT TARGET benchmark::benchmark)
    message(STATUS "Google Benchmark is not installed: ${target} is not built")
    return()
  endif()
  add_executable(${target} ${target}.cu)
  target_link_libraries(${target} PRIVATE ${ARGN} distwar_device benchmark::benchmark)
  if(DISTWAR_CCCL_PATH)
    target_include_directories(${target} BEFORE PRIVATE ${DISTWAR_CCCL_PATH})
  endif()
  distwar_target(${target})
  # Debian has the library only as a shared one: it travels beside the program.
  add_custom_command(TARGET ${target} POST_BUILD COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_SONAME_FILE:benchmark::benchmark>
                                                         $<TARGET_FILE_DIR:${target}>)
  set_target_properties(${target} PROPERTIES BUILD_RPATH_USE_ORIGIN ON BUILD_RPATH "\$ORIGIN")
endfunction()
