// Catch2 under one name: version 2 (Debian 12) and version 3 (Debian 13) differ in their headers only.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
