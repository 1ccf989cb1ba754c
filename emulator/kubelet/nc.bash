#!/bin/bash
network=tcp seconds=0 only_look=
while getopts vtuzw:46n option; do
    case $option in
        u) network=udp ;;
        w) seconds=$OPTARG ;;
        z) only_look=1 ;;
        v | t | 4 | 6 | n) ;;
        *) exit 1 ;;
    esac
done
shift $((OPTIND - 1))
[ $# = 2 ] || { echo "usage: nc [-uvz] [-w seconds] host port" >&2; exit 1; }
timeout "$seconds" bash -c 'exec 3<>"/dev/$0/$1/$2"' "$network" "$1" "$2" || exit 1
[ -z "$only_look" ] || exit 0
exec 3<>"/dev/$network/$1/$2"
cat >&3
timeout "$seconds" cat <&3
exit 0
