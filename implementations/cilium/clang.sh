#!/bin/sh
# Compile with clang-19, which Cilium's agent calls `clang`, and keep the objects of its BPF programs for other nodes and later runs.
#
# The agent asks for an object on stdout. A kept object is used for the same code, compiler and options. The folders of headers have other
# names in each run, so they do not count. ccache cannot do this: it keeps no objects that go to stdout.
set -eu
case " $* " in
*" -g "*" -o - ") ;;
*) exec clang-19 "$@" ;;
esac

kept=${TRAFFICDIST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/trafficdist}/bpf
mkdir -p "$kept"
code=$(mktemp /run/code.XXXXXX)
trap 'rm -f "$code"' EXIT
clang-19 "$@" -E -P >"$code"
options=$(printf '%s\n' "$@" | grep -v '^-I')
object=$kept/$({ clang-19 --version; echo "$options"; cat "$code"; } | sha256sum | cut -c1-32).o
if [ ! -e "$object" ]; then
    clang-19 "$@" >"$object.$$"
    mv "$object.$$" "$object"
fi
cat "$object"
