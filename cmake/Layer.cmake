# dsv31_layer(NAME SOURCES ... [LINK ...]): one folder of the library as an object library `dsv31_NAME`.
# The final `dsv31` target is made of all of them; tests of internals link just the layers they need.
set_property(GLOBAL PROPERTY DSV31_LAYERS "")

add_library(dsv31_flags INTERFACE)
target_compile_features(dsv31_flags INTERFACE cxx_std_20)
target_include_directories(dsv31_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})
target_compile_definitions(dsv31_flags INTERFACE DSV31_BUILDING)
target_compile_options(dsv31_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -ffp-contract=off -fno-math-errno)
if(DSV31_WERROR)
  # GCC 12 warns falsely of these two inside its own std::string and std::vector.
  target_compile_options(dsv31_flags INTERFACE -Werror -Wno-error=restrict -Wno-error=maybe-uninitialized)
endif()

function(dsv31_layer name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(dsv31_${name} OBJECT ${arg_SOURCES})
  set_target_properties(dsv31_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON CXX_EXTENSIONS OFF)
  target_link_libraries(dsv31_${name} PRIVATE dsv31_flags ${arg_LINK})
  # "Unique" symbols would stay global in the bundle and would keep dlclose from unloading the library.
  target_compile_options(dsv31_${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  set_property(GLOBAL APPEND PROPERTY DSV31_LAYERS dsv31_${name})
endfunction()

# dsv31_isa_sources(LAYER ISA FILES...): compile flags for the kernels of one instruction set.
function(dsv31_isa_sources isa)
  set(avx512 "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;-mfma;-mf16c;-mbmi2;-mprefer-vector-width=512")
  if(isa STREQUAL "avx2")
    set(flags "-mavx2;-mfma;-mf16c;-mbmi2")
  elseif(isa STREQUAL "avx512")
    set(flags ${avx512})
  elseif(isa STREQUAL "amx")
    set(flags "${avx512};-mamx-tile;-mamx-int8")
  else()
    set(flags "")
  endif()
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS ${flags})
endfunction()

# dsv31_test(NAME SOURCES ... LAYERS ... [LINK ...]): a Catch2 program tests/NAME, run by ctest once.
function(dsv31_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LAYERS;LINK" ${ARGN})
  set(objects "")
  foreach(layer ${arg_LAYERS})
    list(APPEND objects $<TARGET_OBJECTS:dsv31_${layer}>)
  endforeach()
  add_executable(test_${name} ${arg_SOURCES} ${objects} $<TARGET_OBJECTS:dsv31_test_main>)
  set_target_properties(test_${name} PROPERTIES CXX_EXTENSIONS OFF)
  target_link_libraries(test_${name} PRIVATE dsv31_flags dsv31_dependencies Catch2::Catch2 Threads::Threads ${arg_LINK})
  target_compile_definitions(test_${name} PRIVATE DSV31_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  add_test(NAME ${name} COMMAND test_${name})
endfunction()
