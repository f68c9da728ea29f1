# Kernels of strangers beside plain atomics, cooperative groups and CUB; on a GPU alone. Also without CMake:
#   nvcc -O3 -std=c++17 -arch=sm_90 --no-compress -Iinclude benchmarks/library/strangers.cu -lbenchmark -lpthread \
#        -o strangers
if(CMAKE_CUDA_COMPILER AND benchmark_FOUND)
  add_executable(strangers ${CMAKE_CURRENT_LIST_DIR}/strangers.cu)
  target_link_libraries(strangers PRIVATE distwar::distwar benchmark::benchmark)
  # The machine code of the kernels is read back for its size.
  target_compile_options(strangers PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--no-compress>)
  if(DISTWAR_CCCL_PATH)
    target_include_directories(strangers BEFORE PRIVATE ${DISTWAR_CCCL_PATH})
  endif()
endif()
