"""agnhost in pods of an embedded cluster: the commands that suites use, `netexec`, `serve-hostname` and `pause`.

A pod that a client creates names an image, and there are no images here. So the behaviour of the Kubernetes
project's own test image is written anew, on sockets in the pod's netns: a suite that was written for any cluster works
with it, and finds its peculiarities too. Sources: agnhost 2.66.1, as it is in Kubernetes 1.37
(test/images/agnhost/netexec), and Go 1.26 (net, net/http) for the words of its errors; agnhost 2.52, of Kubernetes
1.31, has no `serverport` and is otherwise the same. `tests/emulator/kubelet/test_agnhost.py` compares it with a real
one if there is one.

These three serve without a process, so that a pod is ready in milliseconds and hundreds of them cost little; `connect`
is a script (`tools`), for programs in pods.

Known differences: a connection of `/dial` is closed by a reset, so that thousands of dials leave nothing in the way of
the next; redirects are not followed, names not resolved; there is no SCTP, no TLS, and none of the endpoints that
change a container (upload, exit, shutdown); shell reads two files of /proc, and runs `agnhost connect` over TCP.
"""
