# `cmake --install` and find_package(quern): one static library, its headers, the command.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/quern)
install(TARGETS quern EXPORT quern-targets FILE_SET HEADERS)
if(TARGET quern_cli)
  install(TARGETS quern_cli)
endif()
install(EXPORT quern-targets NAMESPACE quern:: DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/quern-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/quern-config.cmake ${PROJECT_BINARY_DIR}/quern-config-version.cmake
        DESTINATION ${package_dir})
