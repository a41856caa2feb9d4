#!/bin/sh
# Fails when a source file is not as clang-format writes it.
# usage: sh tests/format.sh CLANG_FORMAT
set -eu
cd "$(dirname "$0")/.."
find include lib backends examples tests -name '*.h' -o -name '*.cc' | sort | xargs "$1" --dry-run -Werror
