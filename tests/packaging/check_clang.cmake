# Compiles KERNEL with clang as the CUDA compiler. Skipped where there is no clang, no toolkit, or a clang that cannot
# compile even an empty kernel against the toolkit.
find_program(clang clang++)
find_path(toolkit include/cuda_runtime.h PATHS ENV CUDA_PATH /usr/local/cuda NO_DEFAULT_PATH)
if(NOT clang OR NOT toolkit)
  message("skipped: clang++ or the CUDA toolkit is not installed")
  return()
endif()
set(compile ${clang} -x cuda --cuda-path=${toolkit} --cuda-gpu-arch=sm_80 -std=c++17 -fsyntax-only -Wall -Werror
            -I${INCLUDE})
file(WRITE ${WORK}/empty.cu "__global__ void empty() {}\n")
execute_process(COMMAND ${compile} ${WORK}/empty.cu RESULT_VARIABLE status ERROR_VARIABLE complaint)
if(NOT status EQUAL 0)
  string(REGEX MATCH "error: [^\n]*" complaint "${complaint}")
  message("skipped: this clang cannot use this toolkit: ${complaint}")
  return()
endif()
execute_process(COMMAND ${compile} ${KERNEL} COMMAND_ERROR_IS_FATAL ANY)
