# The component simt of find_package(distwar): the target distwar::simt and the function simt_target().
find_package(Threads QUIET)
find_package(Boost 1.71 QUIET COMPONENTS context)
if(NOT Threads_FOUND OR NOT Boost_FOUND)
  set(distwar_simt_FOUND FALSE)
  set(distwar_NOT_FOUND_MESSAGE
      "the component simt needs Boost.Context 1.71 or later (Debian and Ubuntu: apt install libboost-context-dev) and threads")
  return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/distwarSimtTargets.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/simt_target.cmake)
set(distwar_simt_FOUND TRUE)
