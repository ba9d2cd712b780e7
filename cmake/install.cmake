# What `cmake --install` puts where, and the deb and rpm packages that `cpack` makes of it.
# The program brings its man page and completions by printing them itself.
set(RF_MADE ${CMAKE_BINARY_DIR}/made)
set(RF_SELF $<TARGET_FILE:rocmforge>)
add_custom_command(OUTPUT ${RF_MADE}/rocmforge.1 ${RF_MADE}/rocmforge ${RF_MADE}/_rocmforge ${RF_MADE}/rocmforge.fish
    COMMAND ${CMAKE_COMMAND} -E make_directory ${RF_MADE}
    COMMAND rocmforge man > ${RF_MADE}/rocmforge.1
    COMMAND rocmforge completions bash > ${RF_MADE}/rocmforge
    COMMAND rocmforge completions zsh > ${RF_MADE}/_rocmforge
    COMMAND rocmforge completions fish > ${RF_MADE}/rocmforge.fish
    DEPENDS rocmforge VERBATIM)
add_custom_target(rf_made ALL DEPENDS ${RF_MADE}/rocmforge.1)

# Relative, so that an installed copy may be moved.
file(RELATIVE_PATH RF_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/rocmforge.pc.in ${RF_MADE}/rocmforge.pc @ONLY)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${RF_MADE}/rocmforgeConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS rocmforge RUNTIME COMPONENT program)
install(FILES models/demo.gguf DESTINATION ${CMAKE_INSTALL_DATADIR}/rocmforge COMPONENT program)
install(FILES ${RF_MADE}/rocmforge.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${RF_MADE}/rocmforge DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    COMPONENT program)
install(FILES ${RF_MADE}/_rocmforge DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
    COMPONENT program)
install(FILES ${RF_MADE}/rocmforge.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
    COMPONENT program)
install(FILES README.md LICENSE packaging/rocmforge.conf DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
# Not CMAKE_INSTALL_LIBDIR: systemd looks here whatever the system's libraries are called.
install(FILES packaging/rocmforge.service DESTINATION lib/systemd/system COMPONENT program)

install(TARGETS rocmforge_shared EXPORT rocmforge LIBRARY COMPONENT library NAMELINK_COMPONENT library)
install(TARGETS rocmforge_static ARCHIVE COMPONENT library)
install(FILES include/rocmforge.h TYPE INCLUDE COMPONENT library)
install(FILES ${RF_MADE}/rocmforge.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
install(EXPORT rocmforge FILE rocmforgeConfig.cmake NAMESPACE rocmforge::
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rocmforge COMPONENT library)
install(FILES ${RF_MADE}/rocmforgeConfigVersion.cmake
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rocmforge COMPONENT library)

set(CPACK_PACKAGE_NAME rocmforge)
set(CPACK_PACKAGE_VENDOR "The ROCmForge authors")
set(CPACK_PACKAGE_CONTACT "The ROCmForge authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Runs large language models from GGUF files")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE MIT)
include(CPack)
