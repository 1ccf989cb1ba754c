"""Generate `models.json`, the models of the `kubernetes` package that OpenAPI documents of the API server need.

python -m tests.reference.apiserver.models_table > reference/apiserver/models.json
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any
from unittest.mock import patch

from kubernetes.client import models

from reference.apiserver import ApiServer, openapi
from reference.features import Features


def table() -> dict[str, Any]:
    """Return the models that the documents use, for all built-in kinds of all releases."""
    known = {name: getattr(models, name) for name in dir(models)}  # the package imports some of them when they are read
    used = _Recorded({name: _described(each) for name, each in known.items() if hasattr(each, "openapi_types")})
    for minor in range(20, 38):
        registry = ApiServer(features=Features(version=(1, minor))).registry
        openapi._v2.cache_clear()
        openapi._v3.cache_clear()
        with patch.object(openapi, "models_by_name", lambda: used):
            openapi.document(registry, "/openapi/v2")
            for path in json.loads(openapi.document(registry, "/openapi/v3"))["paths"]:
                openapi.document(registry, f"/openapi/v3/{path}")
    openapi._v2.cache_clear()
    openapi._v3.cache_clear()
    return {name: used.get(name) for name in sorted(used.names)}


class _Recorded(dict[str, Any]):
    """A dict that records the names of the models that were read."""

    def __init__(self, known: dict[str, Any]) -> None:
        super().__init__(known)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)


def _described(model: Any) -> dict[str, Any]:
    fields = {
        model.attribute_map[attribute]: [written, _description(model, attribute)]
        for attribute, written in model.openapi_types.items()
    }
    return {"description": re.split(r"\n\s*\n", (model.__doc__ or "").strip())[0], "fields": fields}


def _description(model: Any, attribute: str) -> str:
    fields = getattr(model, "model_fields", None)  # models of client 35 and newer
    if fields is not None:
        return getattr(fields.get(attribute), "description", None) or ""
    # "Gets the X of this Y.\n\n  description\n\n :return:"
    parts = re.split(r"\n\s*\n", getattr(model, attribute).__doc__ or "")
    return re.sub(r"\s*# noqa.*", "", parts[1]).strip() if len(parts) > 1 else ""


if __name__ == "__main__":
    sys.stdout.write(json.dumps(table(), indent=1) + "\n")
