# quern_warnings: the warnings that g++ 12 and clang 19 both accept, and paths in __FILE__ that start at the root of
# the repository, so that messages and keys are the same on every machine.
add_library(quern_warnings INTERFACE)
target_compile_options(quern_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Wimplicit-fallthrough -Wextra-semi -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
  $<$<BOOL:${QUERN_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Not all of -Wshadow: g++'s refuses a constructor's parameter that has the name of the member it sets. Those
  # switched off look at optimised code, where g++ 12 gets std::string, std::optional and std::variant wrong; clang
  # and the sanitizers find what they are meant to find.
  target_compile_options(quern_warnings INTERFACE
    -Wshadow=local -Wno-maybe-uninitialized -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow
    -Wno-stringop-overread -Wno-free-nonheap-object)
else()
  # libstdc++ 12 deprecates a function that its own stable_sort calls; clang says so at each use
  target_compile_options(quern_warnings INTERFACE -Wshadow -Wno-deprecated-declarations)
endif()
