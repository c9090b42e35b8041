# cmake -D build=DIR -D compiler=PATH -D flags=FLAGS -P check.cmake
# Installs `build` to an empty prefix, then configures, builds and runs the consumer in this folder against it.
set(work ${build}/install_consumer)
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${build} --prefix ${work}/prefix)
run(${CMAKE_COMMAND} -G Ninja -S ${CMAKE_CURRENT_LIST_DIR} -B ${work}/build -D CMAKE_PREFIX_PATH=${work}/prefix
    -D CMAKE_CXX_COMPILER=${compiler} -D "CMAKE_CXX_FLAGS=${flags}")
run(${CMAKE_COMMAND} --build ${work}/build)

# Where kernels are kept, it needs the module that has LLVM only as long as they are not there.
set(ENV{QUERN_CACHE_DIR} ${work}/cache)
run(${work}/build/consumer)
file(GLOB_RECURSE module ${work}/prefix/libquern_llvm.so)
if(module)
  file(REMOVE ${module})
  run(${work}/build/consumer)
  set(ENV{QUERN_CACHE_DIR} ${work}/empty_cache)
  execute_process(COMMAND ${work}/build/consumer RESULT_VARIABLE status ERROR_VARIABLE said)
  if(status EQUAL 0 OR NOT said MATCHES "libquern_llvm.so cannot be loaded")
    message(FATAL_ERROR "without the module: ${status}, ${said}")
  endif()
endif()
