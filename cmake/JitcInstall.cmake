# cmake --install: headers, library, the CMake package jitc and the pkg-config module jitc.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/jitc)
install(TARGETS jitc EXPORT jitcTargets)
install(DIRECTORY include/jit DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(EXPORT jitcTargets NAMESPACE jitc:: DESTINATION ${package_dir} FILE jitcConfig.cmake)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/jitcConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/jitcConfigVersion.cmake DESTINATION ${package_dir})

# The prefix is relative to the file, so that an installed tree can be moved.
file(RELATIVE_PATH JITC_PC_PREFIX
     ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/jitc.pc.in ${PROJECT_BINARY_DIR}/jitc.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/jitc.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
