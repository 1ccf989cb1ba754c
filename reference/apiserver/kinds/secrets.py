"""Secrets. Anyone who may read the API reads them, as in a cluster without encryption at rest."""

import base64
import binascii
from typing import ClassVar

from reference.apiserver.kinds import columns, errors
from reference.apiserver.kinds.config_maps import ENTRIES, ConfigMaps
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import BOOLEAN, STRING, STRING_MAP, of_object
from reference.apiserver.kinds.strategy import Resource
from reference.client import Object
from reference.features import Features


def _type(secret: Object) -> str:
    return str(secret.get("type", ""))


class Secrets(ConfigMaps):
    """Secrets, whose keys and size have the same limits as those of ConfigMaps."""

    resource = Resource("", "v1", "Secret", "secrets", "secret")
    shape = of_object(data=STRING_MAP, stringData=STRING_MAP, immutable=BOOLEAN, type=STRING)
    selectable_fields: ClassVar = {"type": _type}
    table = (columns.NAME, columns.text("Type", "Type of the secret.", _type), ENTRIES, columns.AGE)

    def default(self, obj: Object) -> None:
        obj.setdefault("type", "Opaque")
        for key, text in (obj.pop("stringData", None) or {}).items():
            obj.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        found = super().validate(obj, features)
        for key, value in (obj.get("data") or {}).items():
            try:
                base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError):
                found.append(errors.invalid(f"data[{key}]", "", "must be base64"))
        return found

    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        found = super().validate_update(new, old, features)
        if new.get("type") != old.get("type"):
            found.append(errors.invalid("type", new.get("type"), "field is immutable"))
        return found
