# Every third-party library of the project, by its Debian name. None appears in a public header.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)            # nlohmann-json3-dev
find_package(fmt 9 REQUIRED)                         # libfmt-dev
find_package(Eigen3 3.4 REQUIRED NO_MODULE)          # libeigen3-dev
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)   # libpcre2-dev
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)  # libutf8proc-dev

add_library(dsv31_dependencies INTERFACE)
target_link_libraries(dsv31_dependencies INTERFACE nlohmann_json::nlohmann_json fmt::fmt-header-only Eigen3::Eigen
                      PkgConfig::PCRE2 PkgConfig::UTF8PROC Threads::Threads)
# oneDNN 3: libdnnl-dev on Debian 13. Debian 12 has version 2; there the Python package onednn-devel-cpu-gomp==2023.2.0 (3.2) serves:
#   python3 -m venv onednn && onednn/bin/pip install onednn-devel-cpu-gomp==2023.2.0
#   cmake ... -DDSV31_ONEDNN=ON -DCMAKE_PREFIX_PATH=$PWD/onednn        # finds onednn/lib/cmake/dnnl/dnnl-config.cmake
# Only the library of OpenMP is linked, to tell oneDNN to stay on the calling thread: its compile flag would set Eigen to threads.
if(DSV31_ONEDNN)
  find_package(dnnl 3 CONFIG REQUIRED)
  if(NOT DNNL_CPU_THREADING_RUNTIME STREQUAL "OMP")
    message(FATAL_ERROR "dnnl: got one that runs on ${DNNL_CPU_THREADING_RUNTIME}, expected one on OpenMP")
  endif()
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  set(DSV31_ONEDNN_LIBRARIES DNNL::dnnl ${OpenMP_CXX_LIB_NAMES})
  target_link_libraries(dsv31_dependencies INTERFACE $<LINK_ONLY:DNNL::dnnl> ${OpenMP_CXX_LIB_NAMES})
endif()
if(DSV31_BUILD_TESTS)
  find_package(Catch2 REQUIRED)                      # catch2
endif()
if(DSV31_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED)                   # libbenchmark-dev
endif()
