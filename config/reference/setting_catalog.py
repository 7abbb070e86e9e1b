"""Catalog of setting keys with type, default, description and examples, read from their declarations."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import cache
from types import NoneType
from typing import Any, get_args

from pydantic.fields import FieldInfo

from config.fields.field_type import FieldType
from config.options import Options
from config.reference import topics
from config.routes.route import Route
from config.validation import Settings
from foundation.values import HostPort, Url

FILE_ONLY = frozenset({"certificates", "identity_providers", "oauth_clients", "policy_tests"})
_UNITS = (("h", timedelta(hours=1)), ("m", timedelta(minutes=1)), ("s", timedelta(seconds=1)), ("ms", timedelta(milliseconds=1)))


@dataclass(frozen=True)
class SettingKey:
    """Key of a setting as users of the configuration see it. `owner` is the model that declares it."""

    name: str
    owner: type[Settings]
    field: FieldInfo

    @property
    def field_type(self) -> FieldType | None:
        """Field type; None for nested models, see `model`."""
        nested = (part for kind in _kinds(self.field.annotation) for part in getattr(kind, "__metadata__", ()))
        candidates = [*self.field.metadata, *nested]
        return next((part for part in reversed(candidates) if isinstance(part, FieldType)), None)

    @property
    def model(self) -> type[Settings] | None:
        return next((kind for kind in _kinds(self.field.annotation) if isinstance(kind, type) and issubclass(kind, Settings)), None)

    @property
    def is_list_of_models(self) -> bool:
        return any(getattr(kind, "__origin__", None) is tuple for kind in _kinds(self.field.annotation))

    @property
    def may_be_null(self) -> bool:
        """Whether the key may be empty in the file.

        An empty setting or route key is unset. A required setting may be empty only if the environment sets it.
        """
        return NoneType in _kinds(self.field.annotation) or (self.owner is Route and not self.is_required)

    @property
    def type_name(self) -> str:
        if self.field_type is not None:
            return self.field_type.type_name
        return "array of objects" if self.is_list_of_models else "object"

    @property
    def default(self) -> Any:
        """Default in its configuration form; None if there is none, or if `when_unset` describes it."""
        if self.field.is_required() or self.when_unset is not None:
            return None
        return to_config_value(self.field.get_default(call_default_factory=True, validated_data={}))

    @property
    def when_unset(self) -> str | None:
        extra = self.field.json_schema_extra
        return str(extra["when_unset"]) if isinstance(extra, dict) and "when_unset" in extra else None

    @property
    def is_required(self) -> bool:
        return self.field.is_required() and self.when_unset is None


def _kinds(annotation: Any) -> Iterator[Any]:
    yield annotation
    for argument in get_args(annotation):
        yield from _kinds(argument)


@cache
def declared_keys(model: type[Settings]) -> tuple[SettingKey, ...]:
    return tuple(SettingKey(name, model, model.model_fields[attribute]) for name, attribute in model.attributes().items())


def settings_by_topic() -> dict[str, tuple[SettingKey, ...]]:
    """Return the settings by topic."""
    return _by_topic(declared_keys(Options), topics.SETTINGS)


def route_keys_by_topic() -> dict[str, tuple[SettingKey, ...]]:
    return _by_topic(route_keys(), topics.ROUTE_KEYS)


def _by_topic(declared: Iterable[SettingKey], names: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[SettingKey, ...]]:
    by_name = {key.name: key for key in declared}
    listed = {name for of_topic in names.values() for name in of_topic}
    if without := sorted(by_name.keys() - listed):
        raise ValueError(f"{', '.join(without)}: no topic. Add it to config/reference/topics.py.")
    if unknown := sorted(listed - by_name.keys()):
        raise ValueError(f"{', '.join(unknown)}: not declared. Remove it from config/reference/topics.py.")
    return {topic: tuple(by_name[name] for name in of_topic) for topic, of_topic in names.items()}


def route_keys() -> tuple[SettingKey, ...]:
    return declared_keys(Route)


def nested_models(declared: Iterable[SettingKey]) -> Iterator[tuple[SettingKey, type[Settings]]]:
    """Yield each key that contains a nested model, with that model, recursively. Routes are not included."""
    for key in declared:
        model = key.model
        if key.field_type is None and model is not None and model is not Route:
            yield key, model
            yield from nested_models(declared_keys(model))


def to_config_value(value: Any) -> Any:
    """Return a value in its configuration form. Raises TypeError for a type without one."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case timedelta():
            return format_duration(value)
        case Decimal():
            return float(value)
        case HostPort() | Url():
            return str(value)
        case Settings():
            return {name: to_config_value(getattr(value, attribute)) for name, attribute in value.attributes().items()}
        case Mapping():
            return {key: to_config_value(content) for key, content in value.items()}
        case tuple() | list():
            return [to_config_value(element) for element in value]
    raise TypeError(f"{type(value).__name__} cannot be written: describe the default in `when_unset`")


def format_duration(value: timedelta) -> str:
    parts = ""
    for unit, length in _UNITS:
        count, value = divmod(value, length)
        parts += f"{count}{unit}" if count else ""
    return parts or "0"
