#!/bin/sh
# Start Cilium's agent on a node: start.sh KUBECONFIG CLUSTER_CIDRS OPTIONS...
#
# This script and the agent write only below /run and /sys/fs/bpf, which the node has for itself. clang.sh also writes into the cache.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
kubeconfig=$1 cidrs=$2
shift 2

cilium define "$kubeconfig"

# The agent compiles the BPF programs in this folder. It writes headers there, so the sources are copied.
bpf=/run/sources/bpf
if [ ! -d "$bpf" ]; then
    program=$(readlink -f "$(command -v cilium-daemon)")
    from=$(dirname "$program")/source/bpf
    mkdir -p /run/sources "$bpf.partial" /run/path
    cp -r --no-preserve=mode "$from"/*.[ch] "$from/include" "$from/lib" "$bpf.partial"
    ln -sf "$here/clang.sh" /run/path/clang
    mv "$bpf.partial" "$bpf"
fi
PATH=/run/path:$PATH
export PATH

ipv4=false ipv6=false
for cidr in $(echo "$cidrs" | tr , ' '); do
    case $cidr in
    *:*) ipv6=true; set -- "$@" "--ipv6-native-routing-cidr=$cidr" ;;
    *) ipv4=true; set -- "$@" "--ipv4-native-routing-cidr=$cidr" ;;
    esac
done

exec cilium-daemon --k8s-kubeconfig-path="$kubeconfig" --lib-dir=/run/sources --bpf-root=/sys/fs/bpf --cgroup-root=/sys/fs/cgroup \
    --enable-ipv4="$ipv4" --enable-ipv6="$ipv6" "$@"
