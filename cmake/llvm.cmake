# LLVM 19 makes the device CPU. Without it there is no such device, and tensors are computed by INTERP.
# Its headers are seen by the few sources that need them only; the shared library is linked by its path, so that a
# project that finds quern does not have to find LLVM.
option(QUERN_LLVM "Build the device CPU, with LLVM 19" ON)
set(llvm_sources "/quern/(render/llvm|runtime/cpu/).*\\.cpp$")
set(llvm_library "")
if(QUERN_LLVM)
  find_package(LLVM 19.1 CONFIG QUIET HINTS /usr/lib/llvm-19)
  if(LLVM_FOUND AND TARGET LLVM)
    get_target_property(llvm_library LLVM LOCATION)
  else()
    message(WARNING "LLVM 19 (Debian: llvm-19-dev) is not there: quern is built without the device CPU")
  endif()
endif()
list(FILTER library_headers EXCLUDE REGEX "/quern/(render/llvm_ops|runtime/cpu/succeed)\\.h$")  # it includes LLVM's: not for users
if(NOT llvm_library)
  list(FILTER library_sources EXCLUDE REGEX ${llvm_sources})
endif()

function(use_llvm target)
  if(NOT llvm_library)
    return()
  endif()
  set(users ${library_sources})
  list(FILTER users INCLUDE REGEX ${llvm_sources})
  separate_arguments(definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
  list(TRANSFORM LLVM_INCLUDE_DIRS PREPEND "-isystem;" OUTPUT_VARIABLE includes)
  set_source_files_properties(${users} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON
                              COMPILE_OPTIONS "${includes};${definitions};-Wno-unused-parameter")
  target_link_libraries(${target} PRIVATE ${llvm_library})
  set_source_files_properties(quern/runtime/device.cpp quern/tensor/tensor.cpp
                              PROPERTIES COMPILE_DEFINITIONS QUERN_HAVE_LLVM)
endfunction()
