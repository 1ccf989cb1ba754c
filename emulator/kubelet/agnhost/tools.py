"""What programs in a pod find of the agnhost image that a machine may not have, as scripts for bash.

`/agnhost connect` over TCP, and a client `nc` for machines without one: by both, suites see whether a port answers.
Source: agnhost 2.66.1 (connect/connect.go), and the options that Kubernetes' own tests give to nc.
"""

from __future__ import annotations

from collections.abc import Mapping

FOLDER = "/opt/agnhost"
"""Where those are that stand behind the machine's own, at the end of PATH."""

_AGNHOST = r"""#!/bin/bash
[ "$1" = connect ] || { echo "Error: an embedded cluster has /agnhost connect only as a program" >&2; exit 1; }
shift
seconds=0 target=
while [ $# -gt 0 ]; do
    case $1 in
        --timeout=*) seconds=${1#*=} ;;
        --timeout) seconds=$2; shift ;;
        --protocol=tcp) ;;
        -*) echo "Error: unknown flag: $1" >&2; exit 1 ;;
        *) target=$1 ;;
    esac
    shift
done
case $seconds in *ms) seconds=1s ;; esac
host=${target%:*}
host=${host#[}
said=$(timeout "$seconds" bash -c 'exec 3<>"/dev/tcp/$0/$1"' "${host%]}" "${target##*:}" 2>&1)
case $?:$said in
    0:*) exit 0 ;;
    124:* | *"timed out"*) echo TIMEOUT ;;
    *refused*) echo REFUSED ;;
    *"not known"* | *resolution*) echo "DNS: $said" ;;
    *) echo "OTHER: $said" ;;
esac >&2
exit 1
"""

_NC = r"""#!/bin/bash
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
"""

TOOLS: Mapping[str, str] = {"/agnhost": _AGNHOST, f"{FOLDER}/nc": _NC}
"""The scripts, by path."""
