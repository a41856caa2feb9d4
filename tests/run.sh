#!/bin/sh
# Sets everything up, builds all and runs the tests.
# usage: sh tests/run.sh [CMAKE_ARGUMENT...]
set -eu
cd "$(dirname "$0")/.."
. cmake/setup.sh
# One fixed version: what clang-format does to the same file differs between versions.
[ -x build/tools/bin/clang-format ] || { python3 -m venv build/tools && build/tools/bin/pip install -q clang-format==19.1.7; }
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DDSV31_WERROR=ON \
  -DDSV31_CLANG_FORMAT="$PWD/build/tools/bin/clang-format" "$@"
cmake --build build
ctest --test-dir build --output-on-failure
