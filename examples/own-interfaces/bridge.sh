#!/bin/sh
# Attach pods to a bridge on each node, by veth pairs with ARP. Runs in the node's netns; see bridge.yaml.
#   bridge.sh attach POD_NETNS INTERFACE HOST_INTERFACE MAC IPV4 IPV6      an address may be empty
#   bridge.sh detach HOST_INTERFACE IPV4 IPV6
set -e

make_bridge() {
    ip link show pods >/dev/null 2>&1 && return
    # With a fixed MAC address; otherwise it takes the lowest one of its ports, which changes while pods still use the old one.
    ip link add pods address 02:00:a9:fe:01:01 type bridge
    ip link set pods up
    ip address add 169.254.1.1/32 dev pods
    [ ! -e /proc/sys/net/ipv6/conf/pods ] || ip address add fe80::1/64 dev pods nodad
}

in_pod() { nsenter --net="$pod" "$@"; }

case $1 in
attach)
    pod=$2 interface=$3 host=$4 mac=$5 ipv4=$6 ipv6=$7
    make_bridge
    ip link add "$host" type veth peer name "$interface" address "$mac" netns "$pod"
    ip link set "$host" master pods up
    ip link set "$host" type bridge_slave hairpin on  # for pods that reach themselves through a Service, if br_netfilter is on
    # Reach neighbours through the node too; otherwise their answers bypass its proxy.
    in_pod sh -c "for each in /proc/sys/net/ipv6/conf/$interface/accept_redirects; do echo 0 >\$each; done"
    in_pod ip link set "$interface" up
    if [ "$ipv4" ]; then
        in_pod ip address add "$ipv4/32" dev "$interface"
        in_pod ip route add default via 169.254.1.1 dev "$interface" onlink
        ip route add "$ipv4" dev pods
    fi
    if [ "$ipv6" ]; then
        in_pod ip address add "$ipv6/128" dev "$interface" nodad
        in_pod ip route add default via fe80::1 dev "$interface"
        ip route add "$ipv6" dev pods
    fi
    ;;
detach)
    host=$2 ipv4=$3 ipv6=$4
    [ -z "$ipv4" ] || ip route delete "$ipv4" dev pods
    [ -z "$ipv6" ] || ip route delete "$ipv6" dev pods
    ip link delete "$host"
    ;;
esac
