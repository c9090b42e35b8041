# As a script: writes `output`, which defines kCodegenVersion as a hash of all sources that take part in making code.
# Included: adds that to the library, done again whenever one of them changes.
if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB_RECURSE sources ${root}/quern/base/* ${root}/quern/ir/* ${root}/quern/codegen/* ${root}/quern/render/* ${root}/quern/runtime/cpu/*)
  list(SORT sources)
  set(all "")
  foreach(source ${sources})
    file(SHA256 ${source} hash)
    string(APPEND all "${hash}")
  endforeach()
  string(SHA256 version "${all}")
  file(WRITE ${output} "#include \"quern/base/codegen_version.h\"\n
const char* const quern::kCodegenVersion = \"${version}\";\n")
  return()
endif()

set(version_inputs ${library_sources} ${llvm_module_sources} ${library_headers})
list(FILTER version_inputs INCLUDE REGEX "/quern/(base|ir|codegen|render|runtime/cpu)/")
add_custom_command(
  OUTPUT ${PROJECT_BINARY_DIR}/codegen_version.cpp
  COMMAND ${CMAKE_COMMAND} -D root=${PROJECT_SOURCE_DIR} -D output=${PROJECT_BINARY_DIR}/codegen_version.cpp
          -P ${PROJECT_SOURCE_DIR}/cmake/codegen_version.cmake
  DEPENDS ${version_inputs} ${PROJECT_SOURCE_DIR}/cmake/codegen_version.cmake
  COMMENT "Hashing the sources of code generation" VERBATIM)
set_source_files_properties(${PROJECT_BINARY_DIR}/codegen_version.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
target_sources(quern PRIVATE ${PROJECT_BINARY_DIR}/codegen_version.cpp)
