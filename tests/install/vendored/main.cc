// A host that has its own functions of the names that the library's dependencies use, as it would with other versions of them
// linked in: if the bundle showed or used these, linking would fail or the answer would be wrong.
#include <cstdlib>

extern "C" {
int pcre2_compile_8() { std::abort(); }
int pcre2_match_8() { std::abort(); }
int pcre2_jit_compile_8() { std::abort(); }
int utf8proc_tolower() { std::abort(); }
int utf8proc_get_property() { std::abort(); }
}

#include "../cmake_cpp/main.cc"
