# What `cmake --install BUILD` puts below its prefix, by component: headers, and simt, gs, train, index, program where they are
# configured. Each component brings the licence; find_package(distwar COMPONENTS ...) reads share/cmake/distwar.
include(CMakePackageConfigHelpers)
set(package share/cmake/distwar)
get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if(C IN_LIST languages)
  include(GNUInstallDirs)
else()
  set(CMAKE_INSTALL_LIBDIR lib) # the headers alone: no library is installed
endif()
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)

# Before 1.0 a minor version may break interfaces.
configure_package_config_file(cmake/distwarConfig.cmake.in distwarConfig.cmake INSTALL_DESTINATION ${package}
                              NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(distwarConfigVersion.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(DIRECTORY include/distwar DESTINATION include COMPONENT headers)
install(TARGETS distwar EXPORT distwar COMPONENT headers)
install(EXPORT distwar NAMESPACE distwar:: FILE distwarTargets.cmake DESTINATION ${package} COMPONENT headers)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/distwarConfig.cmake cmake/distwarFeatures.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/distwarConfigVersion.cmake DESTINATION ${package} COMPONENT headers)
configure_file(cmake/distwar.pc.in distwar.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/distwar.pc DESTINATION share/pkgconfig COMPONENT headers)
set(components headers)

# install_library(<target> <component> <pkg-config template> <its description> <file of its CMake target> <headers...>)
function(install_library target component template described file)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${component})
  install(TARGETS ${target} EXPORT distwar_${component} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component} NAMELINK_COMPONENT ${component})
  install(EXPORT distwar_${component} NAMESPACE distwar:: FILE ${file} DESTINATION ${package} COMPONENT ${component})
  set(pc distwar_${component}.pc)
  configure_file(cmake/${template} ${pc} @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${pc} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${component})
  if(ARGN)
    install(FILES ${ARGN} DESTINATION include COMPONENT ${component})
  endif()
endfunction()

# In a folder of its own, so that its cuda_runtime.h is found only where it is asked for.
if(TARGET simt)
  list(APPEND components simt)
  install_library(simt simt distwar_simt.pc.in "" distwarSimtTargets.cmake)
  install(DIRECTORY simt/include/ DESTINATION include/distwar-simt COMPONENT simt)
  install(FILES simt/distwar-simt.cmake simt/simt_target.cmake DESTINATION ${package} COMPONENT simt)
  install(PROGRAMS simt/launch_syntax.py DESTINATION ${package} COMPONENT simt)
endif()
if(TARGET distwar_gs)
  list(APPEND components gs train index)
  install_library(distwar_gs gs distwar_component.pc.in "differentiable 3D Gaussian splatting, from C" distwar-gs.cmake
                  examples/gaussians/lib/distwar_gs.h)
  install(FILES include/distwar/strategy.h DESTINATION include/distwar COMPONENT gs) # distwar_gs.h includes it
  install_library(distwar_train train distwar_component.pc.in "trains 3D Gaussians on pictures, from C" distwar-train.cmake
                  examples/gaussians/trainer/distwar_train.h examples/gaussians/lib/distwar_gs.h)
  install(FILES include/distwar/strategy.h DESTINATION include/distwar COMPONENT train)
  if(TARGET distwar_index) # not under sanitizers
    install_library(distwar_index index distwar_component.pc.in "sums by index, from C" distwar-index.cmake
                    examples/index/distwar_index.h)
  endif()
endif()
if(TARGET dsplat)
  list(APPEND components program)
  install(TARGETS dsplat RUNTIME DESTINATION bin COMPONENT program)
  get_target_property(described dsplat BINARY_DIR)
  install(FILES ${described}/dsplat.1 DESTINATION share/man/man1 COMPONENT program)
  install(FILES ${described}/dsplat.bash DESTINATION share/bash-completion/completions RENAME dsplat COMPONENT program)
  install(FILES ci/linked-licences DESTINATION share/doc/distwar COMPONENT program)
endif()
foreach(component IN LISTS components)
  install(FILES LICENSE DESTINATION share/doc/distwar COMPONENT ${component})
endforeach()
