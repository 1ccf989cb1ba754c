"""Requests that schemathesis generates from the OpenAPI documents never cause a server error (5xx)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from harness.api.client import Api
from reference.apiserver import ApiServer
from reference.apiserver.server import HttpServer
from tests.reference.apiserver.hostile_requests import SOUND

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed: see extra `fuzz`")

SECONDS = 60.0
ROUND = 5  # requests per operation
NAMES = st.sampled_from(["one", "two", "default", "x", ""])
UNREACHED = 503  # the only intended server error: this server has no access to the pod network


def _operations(documents: Iterable[Any]) -> list[Any]:
    return [
        each.ok() for document in documents for each in schemathesis.openapi.from_dict(document).get_all_operations()
    ]


def _plant(client: Api) -> None:
    """Create an object of most kinds, so that fewer requests end in 404."""
    for collection, obj in SOUND.items():
        made = client.request("POST", collection, {**obj, "metadata": {"name": "one"}})
        assert made.code in {201, 409}, made


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_minute_of_generated_requests_brings_no_error_of_the_server(
    server: HttpServer, client: Api, openapi: dict[str, Any], tmp_path: Path
) -> None:
    operations, begun, sent, codes = _operations(openapi.values()), time.monotonic(), 0, set[int]()
    authority = tmp_path / "ca.pem"
    authority.write_text(server.ca_pem)
    headers = {"Authorization": f"Bearer {server.token}"}

    def ask(operation: Any) -> None:
        @given(case=operation.as_strategy(), namespace=NAMES, name=NAMES)
        @settings(
            max_examples=ROUND,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def once(case: Any, namespace: str, name: str) -> None:
            nonlocal sent
            case.path_parameters |= {
                key: value or case.path_parameters[key]
                for key, value in (("namespace", namespace), ("name", name))
                if key in case.path_parameters
            }
            case.query.pop("watch", None)  # a watch does not end; `test_watch` covers watches
            answer = case.call(base_url=server.url, headers=headers, verify=str(authority), timeout=20)
            sent += 1
            codes.add(answer.status_code)
            unreached = answer.status_code == UNREACHED and "proxy" in case.path
            assert answer.status_code < 500 or unreached, (case.as_curl_command(), answer.text)

        once()

    for number in itertools.count():
        server.replace(ApiServer())
        _plant(client)
        for operation in operations:
            ask(operation)
            if number and time.monotonic() - begun > SECONDS:
                assert sent > 500
                assert {200, 201, 400, 404, 422} <= codes
                return
