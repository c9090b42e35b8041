# `cmake --install` and find_package(quern): one static library, its headers, the module that it loads, the command.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/quern)
install(TARGETS quern EXPORT quern-targets FILE_SET HEADERS)
if(TARGET quern_llvm)
  install(TARGETS quern_llvm LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET quern_cli)
  set_target_properties(quern_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS quern_cli)
endif()
install(EXPORT quern-targets NAMESPACE quern:: DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/quern-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/quern-config.cmake ${PROJECT_BINARY_DIR}/quern-config-version.cmake
        DESTINATION ${package_dir})
