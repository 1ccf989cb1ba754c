#!/bin/sh
# Check that the agent of this node has written the frontend of each Service into its BPF maps.
frontends=$(cilium-dbg shell -- db/show frontends) || { echo "$frontends"; exit 1; }
case $frontends in
Address*) ;;
*) echo "$frontends"; exit 1 ;;
esac
! echo "$frontends" | tail -n +2 | grep -w -e Pending -e Error
