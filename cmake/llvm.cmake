# LLVM 19 makes the device CPU. Without it there is no such device, and tensors are computed by INTERP.
# Only the module quern_llvm is linked with it, and it is loaded when something has to be compiled (see
# quern/runtime/cpu/llvm_module.h): neither a program that finds all its kernels on disk nor a project that finds quern has to
# do with LLVM.
option(QUERN_LLVM "Build the device CPU, with LLVM 19" ON)
option(QUERN_LLVM_STATIC "Let the module carry LLVM, for this kind of processor alone (a wheel has to)" OFF)
set(cpu_sources "/quern/(render/llvm/|runtime/cpu/).*\\.cpp$")
set(module_sources "/quern/(render/llvm/.*|runtime/cpu/(compile|disassemble|llvm_module))\\.cpp$")
set(llvm_library "")
if(QUERN_LLVM)
  find_package(LLVM 19.1 CONFIG QUIET HINTS /usr/lib/llvm-19)
  if(LLVM_FOUND AND TARGET LLVM)
    get_target_property(llvm_library LLVM LOCATION)
  else()
    message(WARNING "LLVM 19 (Debian: llvm-19-dev) is not there: quern is built without the device CPU")
  endif()
endif()
list(FILTER library_headers EXCLUDE REGEX "/quern/(render/llvm/(avx512|masks|ops)|runtime/cpu/succeed)\\.h$")  # it includes LLVM's: not for users
set(llvm_module_sources ${library_sources})
list(FILTER llvm_module_sources INCLUDE REGEX ${module_sources})
list(FILTER library_sources EXCLUDE REGEX ${module_sources})
if(NOT llvm_library)
  list(FILTER library_sources EXCLUDE REGEX ${cpu_sources})
endif()

if(llvm_library)  # for the programs of this project, until they are installed
  set(CMAKE_BUILD_RPATH ${PROJECT_BINARY_DIR})
endif()

# The module. Sources of values (dtypes, args, constants) are compiled into it, too: they have no state. What has state, nodes
# above all, it gets from the core that loads it, and its own names are not seen by others.
function(add_llvm_module)
  list(TRANSFORM LLVM_INCLUDE_DIRS PREPEND "-isystem;" OUTPUT_VARIABLE includes)
  separate_arguments(definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
  set(values base/error base/format_library ir/node/arg ir/node/const ir/node/dtype ir/node/op)
  list(TRANSFORM values REPLACE "(.+)" "quern/\\1.cpp")
  add_library(quern_llvm MODULE ${llvm_module_sources} ${values} ${PROJECT_BINARY_DIR}/codegen_version.cpp)
  target_compile_options(quern_llvm PRIVATE $<$<CONFIG:Release>:-O3> ${includes} ${definitions} -Wno-unused-parameter)
  target_include_directories(quern_llvm PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(quern_llvm PRIVATE quern_fmt quern_warnings)
  if(QUERN_LLVM_STATIC)
    carry_llvm()
  else()
    target_link_libraries(quern_llvm PRIVATE ${llvm_library})
  endif()
  set(exported ${PROJECT_SOURCE_DIR}/cmake/llvm_module.map)
  target_link_options(quern_llvm PRIVATE -Wl,--version-script=${exported})
  if(NOT CMAKE_CXX_FLAGS MATCHES "fsanitize")  # whose functions are those of the program
    target_link_options(quern_llvm PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(quern_llvm PROPERTIES LINK_DEPENDS ${exported})
  if(NOT QUERN_LLVM_STATIC)
    set_target_properties(quern_llvm PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  endif()
endfunction()

# All of LLVM that it uses is part of the module, unseen by others, and what LLVM uses, too.
function(carry_llvm)
  execute_process(COMMAND ${LLVM_TOOLS_BINARY_DIR}/llvm-config --link-static --libfiles native passes orcjit
                  OUTPUT_VARIABLE archives OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(archives NATIVE_COMMAND "${archives}")
  find_library(ZSTD_ARCHIVE libzstd.a REQUIRED)
  find_library(Z_ARCHIVE libz.a REQUIRED)
  target_link_libraries(quern_llvm PRIVATE ${archives} ${ZSTD_ARCHIVE} ${Z_ARCHIVE} ${CMAKE_DL_LIBS})
  target_link_options(quern_llvm PRIVATE -Wl,--exclude-libs,ALL -Wl,--gc-sections)
  set_property(SOURCE quern/runtime/cpu/compile.cpp PROPERTY COMPILE_DEFINITIONS QUERN_LLVM_NATIVE_ONLY)
endfunction()

# `target` is the core: it is built after the module, and programs that are linked with it look where the module is.
function(use_llvm target)
  if(NOT llvm_library)
    return()
  endif()
  include(GNUInstallDirs)
  add_llvm_module()
  add_dependencies(${target} quern_llvm)
  set_property(SOURCE quern/runtime/cpu/load_llvm.cpp PROPERTY COMPILE_DEFINITIONS
               QUERN_LIBRARY_FOLDER="${CMAKE_INSTALL_FULL_LIBDIR}")
  set_property(SOURCE quern/runtime/cpu/host.cpp PROPERTY COMPILE_DEFINITIONS
               QUERN_LLVM_LIBRARY="${llvm_library}" QUERN_LLVM_VERSION="${LLVM_PACKAGE_VERSION}")
  set_source_files_properties(quern/runtime/device.cpp quern/tensor/core/tensor.cpp
                              PROPERTIES COMPILE_DEFINITIONS QUERN_HAVE_LLVM)
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
  if(NOT PROJECT_IS_TOP_LEVEL)
    target_link_options(${target} INTERFACE $<BUILD_INTERFACE:-Wl,-rpath,${PROJECT_BINARY_DIR}>)
  endif()
  target_link_options(${target} INTERFACE $<INSTALL_INTERFACE:-Wl,-rpath,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}>)
endfunction()
