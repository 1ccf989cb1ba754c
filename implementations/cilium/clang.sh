#!/bin/sh
# Compile with clang-19, which Cilium's agent calls `clang`, and keep the objects of its BPF programs for later runs.
#
# The agent asks for an object on stdout. A kept object is used for the same code, compiler and options. The folders of headers have other
# names in each run, so they do not count. bpf_sock.c has other code in each run. ccache does not keep objects that go to stdout.
set -eu
case " $* " in
*/bpf_sock.c*) exec clang-19 "$@" ;;
*" -g "*" -o - ") ;;
*) exec clang-19 "$@" ;;
esac

kept=${TRAFFICDIST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/trafficdist}/bpf
mkdir -p "$kept"
code=$(mktemp /run/code.XXXXXX) fresh=$(mktemp /run/object.XXXXXX)
trap 'rm -f "$code" "$fresh"' EXIT
clang-19 "$@" -E -P >"$code"
options=$(printf '%s\n' "$@" | grep -v '^-I')
object=$kept/$({ clang-19 --version; echo "$options"; cat "$code"; } | sha256sum | cut -c1-32).o
if [ ! -e "$object" ]; then
    clang-19 "$@" >"$fresh"
    partial=$(mktemp "$object.XXXXXX")
    cp "$fresh" "$partial"
    mv "$partial" "$object"
fi
cat "$object"
