# Sources are compiled in batches of one folder: half of the time of compiling goes into headers and templates that the
# sources of a folder share. A name in an anonymous namespace is therefore one of its folder, of which rooms are parts
# (quern/ir is one folder, quern/ir/rules a room in it). The preset `clang` compiles each source alone, so that each includes what
# it uses.
option(QUERN_BATCHES "Compile several sources of a folder at once" ${PROJECT_IS_TOP_LEVEL})
set(batch_size 5)  # more is quicker from the start, and slower after an edit

function(compile_in_batches target)
  if(NOT QUERN_BATCHES)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    # Devices have sources of the same names, and names of the same meaning in them.
    if(folder MATCHES "^(quern|test)/runtime/[a-z_]+/")
      cmake_path(GET folder PARENT_PATH folder)
    else()
      string(REGEX REPLACE "^((quern|test|python)/[a-z_]+)/.*" "\\1" folder ${folder})
    endif()
    string(MAKE_C_IDENTIFIER ${folder} name)
    list(APPEND in_${name} ${source})
    list(LENGTH in_${name} count)
    math(EXPR batch "(${count} - 1) / ${batch_size}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name}_${batch})
  endforeach()
endfunction()
