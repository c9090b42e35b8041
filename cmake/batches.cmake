# Sources are compiled in batches of one folder: half of the time of compiling goes into headers and templates that the
# sources of a folder share. A name in an anonymous namespace is therefore one of its folder. The preset `clang` compiles each
# source alone, so that each includes what it uses.
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
    cmake_path(GET source PARENT_PATH folder)
    list(APPEND in_${folder} ${source})
    list(LENGTH in_${folder} count)
    math(EXPR batch "(${count} - 1) / ${batch_size}")
    cmake_path(GET folder FILENAME name)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name}_${batch})
  endforeach()
endfunction()
