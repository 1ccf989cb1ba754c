#!/bin/sh
# Attach or detach a pod with Cilium's CNI plugin: pods.sh ADD|DEL UID NETNS INTERFACE NAMESPACE NAME IPV4 IPV6
#
# The plugin `static` gives the pod its addresses. A client that is not a pod in the API has neither name nor namespace.
set -eu
uid=$2 netns=$3 interface=$4 namespace=$5 name=$6 ipv4=$7 ipv6=$8
addresses=
[ -z "$ipv4" ] || addresses="{\"address\": \"$ipv4/32\"}"
[ -z "$ipv6" ] || addresses="$addresses${addresses:+, }{\"address\": \"$ipv6/128\"}"

export CNI_COMMAND="$1" CNI_CONTAINERID="$uid" CNI_NETNS="$netns" CNI_IFNAME="$interface"
export CNI_ARGS="IgnoreUnknown=1;K8S_POD_NAMESPACE=$namespace;K8S_POD_NAME=$name"

# On a busy machine, clang may take longer for the first pod than the plugin waits for the agent. A kubelet would try again too.
for try in 1 2 3; do
    if cilium-cni <<CONFIGURATION
{"cniVersion": "1.0.0", "name": "cilium", "type": "cilium-cni", "ipam": {"type": "static", "addresses": [$addresses]}}
CONFIGURATION
    then
        exit 0
    fi
    echo "try $try of 3 failed"
done
exit 1
