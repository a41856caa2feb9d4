# The bundle: one archive with one relocatable object inside, which holds the library and its static dependencies. Its only global
# symbols are those of the API, so that a host may link other versions of the same dependencies, or other copies of the library.
#
# ld -r joins the objects and pulls what they need out of the static libraries of PCRE2 and utf8proc; --force-group-allocation
# settles template instances; objcopy makes everything local that is hidden or not named like the API.
find_library(DSV31_PCRE2_ARCHIVE libpcre2-8.a REQUIRED)
find_library(DSV31_UTF8PROC_ARCHIVE libutf8proc.a REQUIRED)
find_program(DSV31_OBJCOPY NAMES ${CMAKE_OBJCOPY} objcopy REQUIRED)
set(DSV31_BUNDLE ${PROJECT_BINARY_DIR}/libdsv31_bundle.a)

add_custom_command(
  OUTPUT ${DSV31_BUNDLE}
  COMMAND ${CMAKE_LINKER} -r --force-group-allocation -o dsv31_joined.o ${objects} ${DSV31_PCRE2_ARCHIVE} ${DSV31_UTF8PROC_ARCHIVE}
  COMMAND ${DSV31_OBJCOPY} --localize-hidden --wildcard --keep-global-symbol=dsv31_* --keep-global-symbol=_ZN5dsv312v1*
          --keep-global-symbol=_ZNK5dsv312v1* --keep-global-symbol=_ZT[ISV]N5dsv312v1* dsv31_joined.o dsv31_bundle.o
  COMMAND ${CMAKE_COMMAND} -E rm -f ${DSV31_BUNDLE}
  COMMAND ${CMAKE_AR} rcs ${DSV31_BUNDLE} dsv31_bundle.o
  DEPENDS ${layers} ${objects}
  WORKING_DIRECTORY ${PROJECT_BINARY_DIR}
  COMMENT "Joining libdsv31_bundle.a"
  COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(dsv31_bundle ALL DEPENDS ${DSV31_BUNDLE})
