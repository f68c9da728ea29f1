# C++17 for whoever links distwar_target, in the languages that the project has enabled.
get_property(distwar_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
foreach(language IN ITEMS CXX CUDA)
  if(language IN_LIST distwar_languages)
    string(TOLOWER ${language} feature)
    set_property(TARGET ${distwar_target} APPEND PROPERTY INTERFACE_COMPILE_FEATURES ${feature}_std_17)
  endif()
endforeach()
