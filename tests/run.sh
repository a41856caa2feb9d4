#!/bin/sh
# Sets everything up, builds all and runs the tests.
# usage: sh tests/run.sh [CMAKE_ARGUMENT...]
set -eu
cd "$(dirname "$0")/.."
. cmake/setup.sh
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DDSV31_WERROR=ON "$@"
cmake --build build
ctest --test-dir build --output-on-failure
