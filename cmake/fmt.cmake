# quern_fmt: fmt without its library. Its functions are compiled once, into quern (quern/base/format_library.cpp), instead of
# in every source, which took most of a build. Versions that the file does not know are used as headers alone.
find_package(fmt REQUIRED)
add_library(quern_fmt INTERFACE)
get_target_property(fmt_include fmt::fmt-header-only INTERFACE_INCLUDE_DIRECTORIES)
target_include_directories(quern_fmt SYSTEM INTERFACE ${fmt_include})
if(NOT fmt_VERSION VERSION_GREATER_EQUAL 9 OR NOT fmt_VERSION VERSION_LESS 10)
  target_compile_definitions(quern_fmt INTERFACE FMT_HEADER_ONLY=1)
endif()
