# embed(TARGET NAME FILE): the bytes of FILE are part of TARGET, as `extern const unsigned char NAME[]` and NAME_size in
# namespace quern::embedded.
function(embed target name file)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded_${name}.cpp)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(SIZE ${file} size)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT "#include <cstddef>
namespace quern::embedded {
extern const unsigned char @name@[];
extern const size_t @name@_size;
const size_t @name@_size = @size@;
const unsigned char @name@[] = {@bytes@};
}  // namespace quern::embedded
")
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
