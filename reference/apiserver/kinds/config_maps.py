"""ConfigMaps."""

from __future__ import annotations

from reference.apiserver.kinds.strategy import Resource, Strategy


class ConfigMaps(Strategy):
    resource = Resource("", "v1", "ConfigMap", "configmaps", "configmap", ("cm",))
