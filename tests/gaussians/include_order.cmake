# Fails on an #include against the order of rooms and folders.
#
#   cmake -D ROOT=... -P include_order.cmake
#
# A room, and a folder of a room, includes only from itself and from those named after it below. The drawing is in
# docs/developers/design.md, sections 2 and 5.

cmake_policy(VERSION 3.25)

# room | its folder, with all folders in it | the rooms it may include from
set(rooms
    "library|include/distwar|"
    "device|simt/device|library"
    "library_tests|tests/library|library device"
    "simt_tests|tests/simt|library device"
    "library_benchmarks|benchmarks/library|library device"
    "common|examples/common|library device"
    "lib|examples/gaussians/lib|library device common"
    "data|examples/gaussians/data|device common lib"
    "ranks|examples/gaussians/ranks|library device common lib"
    "trainer|examples/gaussians/trainer|library device common lib data ranks"
    "ways|examples/gaussians/ranks/ways|library device common lib data ranks trainer"
    "program|examples/gaussians/program|library device common lib data ranks trainer ways"
    "lm|examples/gaussians/lm|library device common lib data ranks trainer program"
    "index|examples/index|library device common")

# Folders of a room: room | folder | the folders it may include from. Files of the room beside its folders are below them.
set(folders
    "common|files|"
    "common|images|files"
    "common|cli|files"
    "common|gpu|"
    "common|strategies|files cli gpu"
    "common|fit|files images cli gpu strategies"
    "program|measure|"
    "program|demo|"
    "program|record|measure"
    "program|live|measure record"
    "program|commands|measure demo record live"
    "program|dsplat.c|commands")

set(faults "")

# The names in quotes that a file includes.
function(includes_of file out)
  file(STRINGS "${file}" lines REGEX "^[ \t]*#[ \t]*include[ \t]*[\"<]")
  set(names "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[ \t]*#[ \t]*include[ \t]*[\"<]([^\">]*)[\">].*" "\\1" name "${line}")
    list(APPEND names "${name}")
  endforeach()
  set(${out} "${names}" PARENT_SCOPE)
endfunction()

function(sources_of folder out)
  file(GLOB_RECURSE sources RELATIVE "${ROOT}" "${ROOT}/${folder}/*.h" "${ROOT}/${folder}/*.cuh" "${ROOT}/${folder}/*.c"
       "${ROOT}/${folder}/*.cpp" "${ROOT}/${folder}/*.cu")
  set(${out} "${sources}" PARENT_SCOPE)
endfunction()

# "name|folder|allowed allowed" into its fields.
macro(split row)
  string(REGEX MATCH "^([^|]*)[|]([^|]*)[|](.*)$" matched "${row}")
  set(room "${CMAKE_MATCH_1}")
  set(folder "${CMAKE_MATCH_2}")
  string(REPLACE " " ";" allowed "${CMAKE_MATCH_3}")
endmacro()

# The files of each room, by the name that others include them by.
foreach(row IN LISTS rooms)
  split("${row}")
  sources_of("${folder}" sources_${room})
  foreach(inner IN LISTS rooms) # a room in the folder of another one
    if(inner MATCHES "^[^|]*[|](${folder}/[^|]*)[|]")
      list(FILTER sources_${room} EXCLUDE REGEX "^${CMAKE_MATCH_1}/")
    endif()
  endforeach()
  foreach(source IN LISTS sources_${room})
    string(REPLACE "${folder}/" "" name "${source}")
    list(APPEND names_${room} "${name}")
  endforeach()
endforeach()

foreach(row IN LISTS rooms)
  split("${row}")
  foreach(source IN LISTS sources_${room})
    get_filename_component(beside "${source}" DIRECTORY)
    includes_of("${ROOT}/${source}" names)
    foreach(name IN LISTS names)
      string(REGEX REPLACE "^distwar/" "" short "${name}")
      set(found "")
      if(EXISTS "${ROOT}/${beside}/${name}")
        set(found "${room}")
      endif()
      foreach(other IN LISTS room allowed)
        if(NOT found AND short IN_LIST names_${other})
          set(found "${other}")
        endif()
      endforeach()
      foreach(other IN ITEMS library device common lib data ranks trainer ways program lm) # no room that it may include from has such a file
        if(NOT found AND short IN_LIST names_${other})
          string(APPEND faults "${source} includes ${name}: ${room} must not know ${other}\n")
          set(found "${other}")
        endif()
      endforeach()
    endforeach()
  endforeach()
endforeach()

# In a room each folder of `folders` includes only from itself, from those named after it and from the room's own files.
foreach(row IN LISTS rooms)
  split("${row}")
  set(known "")
  set(top "${folder}")
  foreach(line IN LISTS folders)
    if(NOT line MATCHES "^${room}[|]([^|]*)[|](.*)$")
      continue()
    endif()
    set(inside "${CMAKE_MATCH_1}")
    string(REPLACE " " ";" allowed "${CMAKE_MATCH_2}")
    list(APPEND known "${inside}")
    foreach(source IN LISTS sources_${room})
      if(NOT source MATCHES "^${top}/${inside}(/|$)")
        continue()
      endif()
      includes_of("${ROOT}/${source}" names)
      foreach(name IN LISTS names)
        if(NOT name MATCHES "^([a-z_]+)/")
          continue()
        endif()
        set(other "${CMAKE_MATCH_1}")
        if(IS_DIRECTORY "${ROOT}/${top}/${other}" AND NOT other STREQUAL inside AND NOT other IN_LIST allowed)
          string(APPEND faults "${source} includes ${name}: ${inside} must not know ${other}\n")
        endif()
      endforeach()
    endforeach()
  endforeach()
  if(known)
    foreach(source IN LISTS sources_${room})
      string(REGEX REPLACE "^${top}/" "" name "${source}")
      string(REGEX REPLACE "/.*$" "" inside "${name}")
      if(NOT inside IN_LIST known AND (room STREQUAL program OR name MATCHES "/"))
        string(APPEND faults "${source}: ${inside} has no place in the order\n")
      endif()
    endforeach()
  endif()
endforeach()

list(LENGTH sources_program count)
if(count LESS 2)
  string(APPEND faults "${ROOT}: there is no program to look at\n")
endif()
if(faults)
  message(NOTICE "${faults}")
  message(FATAL_ERROR "includes are out of order")
endif()
message(STATUS "${count} files of program, and those of the rooms below it, are in order")
