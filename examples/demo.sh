#!/bin/sh
# Sets everything up, builds the command line and lets the embedded model answer, without thinking and with.
# usage: sh examples/demo.sh [QUESTION]
set -eu
cd "$(dirname "$0")/.."
. cmake/setup.sh
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DDSV31_BUILD_TESTS=OFF > /dev/null
cmake --build build --target dsv31_cli >&2
question=${1:-What is the capital of France?}
for mode in --no-think --think; do
  echo "> $question   ($mode)"
  printf '%s\n' "$question" | build/bin/dsv31 chat -m examples/models/dsv31-tiny-Q8_0.gguf $mode --temp 0
done
