# Installs the headers and simt of BUILD into PREFIX, afresh.
file(REMOVE_RECURSE ${PREFIX})
foreach(component IN ITEMS headers simt)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX} --component ${component}
                  COMMAND_ERROR_IS_FATAL ANY)
endforeach()
