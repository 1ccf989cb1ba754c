"""The same requests about custom resources get the same answers from this server and from kube-apiserver.

Not compared are texts, and what this server does differently by choice: a definition is established at once, and
warnings about deprecated versions come with writes only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from harness.control_planes.api_server import LocalApiServer
from harness.control_planes.processes import Processes
from harness.control_planes.relay import EgressProxy
from harness.errors import UnavailableError
from harness.eventually import eventually
from harness.model.release import Release
from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer
from tests.reference.apiserver.compare_servers import ServerClient, reduced
from tests.reference.apiserver.widget_requests import (
    DEFINITIONS,
    WIDGETS,
    WidgetRequest,
    definition,
    requests,
    wrong_definitions,
)

VERSION = "1.37"


@pytest.fixture(scope="module")
def real() -> Iterator[ServerClient]:
    """kube-apiserver, if it is in the cache of components."""
    with closing(Processes()) as processes, closing(EgressProxy(processes.folder)) as egress:
        try:
            server = LocalApiServer(processes, egress=egress.configuration)
            processes.find("kube-apiserver", VERSION)
        except UnavailableError as error:
            pytest.skip(f"unavailable: {error}")
        egress.start()
        server._start_etcd()
        server.start_api_server(Release(VERSION))
        yield ServerClient(server.kubeconfig())


@pytest.fixture(scope="module")
def ours() -> Iterator[ServerClient]:
    server = HttpServer(ApiServer())
    server.start()
    yield ServerClient(server.kubeconfig())
    server.stop()


def answer(asking: ServerClient, sent: WidgetRequest) -> list[Any]:
    code, body, warnings = asking(sent)
    return [code, reduced(body), warnings if sent.method != "GET" else []]


@pytest.mark.parametrize("name", [name for name, _ in wrong_definitions()])
def test_wrong_definition_is_refused_by_both(ours: ServerClient, real: ServerClient, name: str) -> None:
    sent = WidgetRequest("POST", f"{DEFINITIONS}?dryRun=All", dict(wrong_definitions())[name])
    assert [ours(sent)[0], real(sent)[0]] == [422, 422]


def test_answers_to_all_requests_are_equal(ours: ServerClient, real: ServerClient) -> None:
    for each in (ours, real):
        assert each(WidgetRequest("POST", DEFINITIONS, definition()))[0] == 201
    eventually(lambda: real(WidgetRequest("GET", WIDGETS))[0] == 200, within=60, describe="the definition to be served")
    eventually(
        lambda: "widgets/scale" in str(real(WidgetRequest("GET", "/apis/example.com/v1beta1"))),
        within=60,
        describe="discovery to list the definition",
    )
    different = []
    for sent in requests():
        pair = answer(ours, sent), answer(real, sent)
        if pair[0] != pair[1]:
            different.append((sent, *pair))
    assert different == []
