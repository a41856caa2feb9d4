# Installing: headers, the library, its CMake package and its pkg-config file. `dsv31::dsv31` is the same target name for users of
# find_package and of add_subdirectory.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/dsv31 DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS dsv31 EXPORT dsv31Targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT dsv31Targets NAMESPACE dsv31:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dsv31)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/dsv31Config.cmake.in ${PROJECT_BINARY_DIR}/dsv31Config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dsv31)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/dsv31ConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/dsv31Config.cmake ${PROJECT_BINARY_DIR}/dsv31ConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dsv31)

# A static library needs its dependencies named; the shared one and the bundle carry them inside.
if(BUILD_SHARED_LIBS OR DSV31_BUNDLE_STATIC)
  set(DSV31_PC_REQUIRES_PRIVATE "")
else()
  set(DSV31_PC_REQUIRES_PRIVATE "libpcre2-8, libutf8proc")
endif()
if(DSV31_ONEDNN)
  cmake_path(SET DSV31_ONEDNN_LIBDIR NORMALIZE ${dnnl_DIR}/../..)
  list(TRANSFORM OpenMP_CXX_LIB_NAMES PREPEND -l OUTPUT_VARIABLE openmp)
  list(JOIN openmp " " openmp)
  set(DSV31_PC_LIBS_PRIVATE "-L${DSV31_ONEDNN_LIBDIR} -ldnnl ${openmp}")
endif()
file(RELATIVE_PATH DSV31_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_CURRENT_LIST_DIR}/dsv31.pc.in ${PROJECT_BINARY_DIR}/dsv31.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/dsv31.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(DSV31_BUNDLE_STATIC)
  install(FILES ${DSV31_BUNDLE} DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
