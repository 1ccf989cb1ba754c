"""ConfigMaps and Secrets. Secrets have no additional protection, as in a cluster without encryption at rest."""

import base64
import re
from collections.abc import Sequence
from typing import ClassVar

from reference.apiserver.kinds import columns, errors
from reference.apiserver.kinds.columns import Column
from reference.apiserver.kinds.errors import FieldError
from reference.apiserver.kinds.shapes import BOOLEAN, STRING, STRING_MAP, of_object
from reference.apiserver.kinds.strategy import Resource, Strategy
from reference.client import Object
from reference.features import Features

MAX_BYTES = 1024 * 1024

_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def _entries(obj: Object) -> int:
    return len(obj.get("data") or {}) + len(obj.get("binaryData") or {})


_ENTRIES = Column("Data", "integer", "", "Number of entries.", 0, _entries)


class ConfigMaps(Strategy):
    resource = Resource("", "v1", "ConfigMap", "configmaps", "configmap", ("cm",))
    shape = of_object(data=STRING_MAP, binaryData=STRING_MAP, immutable=BOOLEAN)
    table: Sequence[Column] = (columns.NAME, _ENTRIES, columns.AGE)

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        found, size = super().validate(obj, features), 0
        for part in ("data", "binaryData"):
            for key, value in (obj.get(part) or {}).items():
                size += len(value.encode())
                if not _KEY.fullmatch(key) or key in {".", ".."}:
                    found.append(errors.invalid(f"{part}[{key}]", key, _KEY_RULE))
        if size > MAX_BYTES:
            found.append(errors.too_long("", MAX_BYTES))
        return found

    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        found = super().validate_update(new, old, features)
        if old.get("immutable"):
            said = "field is immutable when `immutable` is set"
            changed = [name for name in ("immutable", "data", "binaryData") if new.get(name) != old.get(name)]
            found += [errors.forbidden(name, said) for name in changed]
        return found


def _type(secret: Object) -> str:
    return str(secret.get("type", ""))


class Secrets(ConfigMaps):
    """The strategy of Secrets. Keys and total size have the same limits as in ConfigMaps."""

    resource = Resource("", "v1", "Secret", "secrets", "secret")
    shape = of_object(data=STRING_MAP, stringData=STRING_MAP, immutable=BOOLEAN, type=STRING)
    selectable_fields: ClassVar = {"type": _type}
    table = (columns.NAME, columns.text("Type", "Type of the secret.", _type), _ENTRIES, columns.AGE)

    def default(self, obj: Object) -> None:
        obj.setdefault("type", "Opaque")
        for key, text in (obj.pop("stringData", None) or {}).items():
            obj.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()

    def validate(self, obj: Object, features: Features) -> list[FieldError]:
        found = super().validate(obj, features)
        for key, value in (obj.get("data") or {}).items():
            try:
                base64.b64decode(value, validate=True)
            except ValueError:
                found.append(errors.invalid(f"data[{key}]", "", "must be base64"))
        return found

    def validate_update(self, new: Object, old: Object, features: Features) -> list[FieldError]:
        found = super().validate_update(new, old, features)
        if new.get("type") != old.get("type"):
            found.append(errors.invalid("type", new.get("type"), "field is immutable"))
        return found
