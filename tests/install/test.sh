#!/bin/sh
# Builds and runs the consumers of one way to get the library.
# usage: test.sh WAY SOURCE_DIR BUILD_DIR MODEL [LAUNCHER]   WAY: installed, subdirectory, bundle, shared, symbols
set -eu
way=$1 source=$2 build=$3 model=$4 launcher=${5:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
configure() { cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" "$3" "${4:--Wno-dev}" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }; }
make() { cmake --build "$1" > "$work/log" 2>&1 || { tail -50 "$work/log"; exit 1; }; }
flags="-std=c++20 -O1 -I$source/include"

# Symbols that are defined and global but not of the API.
foreign() { nm "$1" "$2" --defined-only | awk '{print $NF}' | grep -vE '^(dsv31_|_ZN5dsv312v1|_ZNK5dsv312v1|_ZT[ISV]N5dsv312v1)' | grep -v '^$' | grep -v ':$' || true; }

case $way in
installed)
  cmake --install "$build" --prefix "$work/prefix" > /dev/null
  for consumer in cmake_cpp cmake_c; do
    configure "$source/tests/install/$consumer" "$work/$consumer" "-DCMAKE_PREFIX_PATH=$work/prefix"
    make "$work/$consumer"
    "$work/$consumer/consumer" "$model"
  done
  "$work/cmake_c/no_exceptions" "$model"
  # pkg-config, with the prefix moved
  mv "$work/prefix" "$work/moved"
  pc=$(dirname "$(find "$work/moved" -name dsv31.pc)")
  g++ -std=c++20 "$source/tests/install/cmake_cpp/main.cc" -o "$work/with_pc" $(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs --static dsv31)
  "$work/with_pc" "$model"
  ;;
subdirectory)
  configure "$source/tests/install/cmake_cpp" "$work/sub" "-DDSV31_SOURCE=$source" -DDSV31_WERROR=ON  # the flags of the suite: a compiler cache serves both
  make "$work/sub"
  "$work/sub/consumer" "$model"
  ;;
bundle)
  for program in cmake_cpp/main.cc vendored/main.cc; do
    g++ $flags "$source/tests/install/$program" "$build/libdsv31_bundle.a" -pthread -o "$work/app"
    "$work/app" "$model"
  done
  gcc -std=c99 -c "-I$source/include" "$source/tests/install/cmake_c/main.c" -o "$work/main.o"
  g++ "$work/main.o" "$build/libdsv31_bundle.a" -pthread -o "$work/app"
  "$work/app" "$model"
  ;;
shared)
  g++ $flags "$source/tests/install/cmake_cpp/main.cc" "$build/tests/install/libdsv31.so" "-Wl,-rpath,$build/tests/install" -o "$work/app"
  "$work/app" "$model"
  # Loaded, used and unloaded again and again: nothing may stay behind.
  gcc -std=c99 -D_GNU_SOURCE "-I$source/include" "$source/tests/install/reload.c" -ldl -o "$work/reload"
  "$work/reload" "$build/tests/install/libdsv31.so" "$model"
  ;;
symbols)
  for check in "-g $build/libdsv31_bundle.a" "-D $build/tests/install/libdsv31.so"; do
    found=$(foreign $check | grep -v 'bundle.o' || true)
    if [ -n "$found" ]; then
      echo "symbols outside the API in ${check#* }:"
      echo "$found" | c++filt | head -20
      exit 1
    fi
    count=$(nm ${check} --defined-only | grep -c ' T dsv31_')
    [ "$count" -ge 25 ] || { echo "only $count functions of the C API in ${check#* }"; exit 1; }
  done
  ;;
*) echo "unknown way: $way"; exit 2 ;;
esac
echo "$way: all consumers ran"
