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
if(DSV31_BUILD_TESTS)
  find_package(Catch2 REQUIRED)                      # catch2
endif()
if(DSV31_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED)                   # libbenchmark-dev
endif()
