"""The DNS server that pods of an embedded cluster use to resolve Services, at the tenth IP of the Service CIDR."""

import contextlib
import ipaddress
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from harness.api.client import Api
from harness.dns.dns import PORT
from harness.dns.reference import listen
from harness.model.manifests import Endpoint, Port, endpoint_slice, service
from harness.netns.addresses import SERVICE_CIDRS
from harness.netns.fabric import Network, NetworkPeer
from reference.client.remote import RemoteClient
from reference.dns import DnsServer
from reference.features import Features

NAMESPACE, NAME = "kube-system", "kube-dns"
_PORTS = (
    Port(name="dns", protocol="UDP", port=PORT, target=PORT),
    Port(name="dns-tcp", protocol="TCP", port=PORT, target=PORT),
)
_TENTH = 10  # index of the DNS address in the Service CIDR, as in kubeadm


class KubeDns:
    """A DNS server in a pod on the first node, behind the Service kube-dns."""

    def __init__(self, kubeconfig: Mapping[str, Any], api: Api, network: Network) -> None:
        self._client = RemoteClient(kubeconfig)
        self._server = DnsServer(self._client, features=Features(gates={"ServiceTopology": False}))
        self._api = api
        self._network = network
        self.address = str(ipaddress.ip_network(SERVICE_CIDRS[network.families[0]])[_TENTH])
        """The cluster IP of the Service kube-dns, in the first IP family."""

    def threads(self) -> tuple[threading.Thread, ...]:
        return (*self._server.threads, *self._client.threads)

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        """Serve DNS during the `with` block. Raises `RefusedError` if the cluster IP is in use."""
        pod = self._network.add_pod(next(iter(self._network.nodes)))
        listen(self._server, pod)
        self._server.start()
        try:
            self._publish(pod)
            yield
        finally:
            self._server.stop()
            self._client.close()
            self._network.remove_pod(pod)

    def _publish(self, pod: NetworkPeer) -> None:
        labels = {"k8s-app": NAME, "kubernetes.io/name": "CoreDNS"}
        made = service(NAME, ports=_PORTS, labels=labels, clusterIP=self.address, ipFamilyPolicy="PreferDualStack")
        self._api.create("services", NAMESPACE, made)
        addresses = {str(family): ip for family, ip in pod.addresses.items()}
        endpoint = Endpoint(addresses, node=pod.node)
        for family in addresses:
            written = endpoint_slice(f"{NAME}-{family.lower()}", NAME, [endpoint], family=family, ports=_PORTS)
            self._api.create("endpointslices", NAMESPACE, written)
