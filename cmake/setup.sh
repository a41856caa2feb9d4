# Brings what a build needs on a fresh Debian machine. Sourced by examples/demo.sh and tests/run.sh.
packages="g++ cmake ninja-build ccache pkg-config python3 python3-venv libeigen3-dev libfmt-dev nlohmann-json3-dev libpcre2-dev libutf8proc-dev libcli11-dev catch2 libbenchmark-dev"
missing=""
for p in $packages; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $p"
done
if [ -n "$missing" ]; then
  sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  echo "installing:$missing" >&2
  $sudo apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >&2
fi
