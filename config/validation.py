"""Validation: the base class of all settings models, which reports all problems at once."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from config.parsing.document import KeyPath
from foundation.version import RELEASE

# (key path, message); an optional third part is a second key path, which the message calls `{other}`.
Finding = tuple[KeyPath, str] | tuple[KeyPath, str, KeyPath]
Rule = Callable[[Any], Iterator[Finding]]

MAX_DETAILS = 1_100  # per object; more than are ever displayed

_MESSAGES = {
    "missing": "is required",
    "dict_type": "must be a map",
    "model_type": "must be a map",
    "tuple_type": "must be a list",
}


class Settings(BaseModel):
    """Settings model. `RULES` check several settings together; `REMOVED` and `ELSEWHERE` explain keys that are not settings here."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, arbitrary_types_allowed=True, defer_build=True)
    RULES: ClassVar[tuple[Rule, ...]] = ()
    REMOVED: ClassVar[Mapping[str, str]] = {}
    ELSEWHERE: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="wrap")
    @classmethod
    def _run_rules(cls, raw: Any, make: ModelWrapValidatorHandler[Self]) -> Self:
        made = make(raw)
        # A frozen route was checked when it was created, and is validated again as part of Options.
        if made is not raw and (findings := list(find_violations(cls.RULES, made))):
            raise PydanticCustomError("rules", "breaks a rule", {"findings": findings})
        return made

    @classmethod
    @cache
    def attributes(cls) -> dict[str, str]:
        """Return the attribute names by configuration key (`from` -> `from_`)."""
        return {field.alias or name: name for name, field in cls.model_fields.items()}

    @classmethod
    @cache
    def defaults(cls) -> Mapping[str, Any]:
        """Return the default of each attribute."""
        return {name: field.get_default(call_default_factory=True, validated_data={}) for name, field in cls.model_fields.items()}


Model = TypeVar("Model", bound=Settings)


class _InvalidSetting(Exception):
    """Raised if a rule reads a setting that is itself invalid, so that the rule cannot be evaluated."""


class ValidSubset:
    """The settings that are valid on their own."""

    def __init__(self, values: dict[str, Any]):
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise _InvalidSetting(name)


def validate(model: type[Model], raw: Any, context: dict[str, Any]) -> tuple[Model | None, list[Finding]]:
    """Validate `raw`. Return the model, or all findings.

    If some settings are invalid, rules whose own settings are valid still run.
    """
    raw = _limit_unknown_keys(model, raw)
    try:
        return model.model_validate(raw, context=context), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
    findings = [finding for detail in details[:MAX_DETAILS] for finding in _findings(model, detail)]
    rules_ran = any(detail["type"] == "rules" and not detail["loc"] for detail in details)
    if isinstance(raw, dict) and not rules_ran:
        findings += list(find_violations(model.RULES, valid_subset(model, raw, findings, context)))
    return None, findings


def _limit_unknown_keys(model: type[Settings], raw: Any) -> Any:
    """Drop unknown keys beyond MAX_DETAILS: a file may have hundreds of thousands, and each needs a message."""
    if not isinstance(raw, dict) or len(raw) <= MAX_DETAILS:
        return raw
    known = model.attributes()
    unknown = [key for key in raw if key not in known]
    return {key: raw[key] for key in (*(key for key in raw if key in known), *unknown[:MAX_DETAILS])}


def find_violations(rules: Iterable[Rule], settings: object) -> Iterator[Finding]:
    for rule in rules:
        try:
            yield from rule(settings)
        except _InvalidSetting:
            continue


def _findings(model: type[Settings], detail: Any) -> Iterator[Finding]:
    path: KeyPath = detail["loc"]
    context = detail.get("ctx", {})
    if detail["type"] == "rules":
        yield from ((path + rest, message) for rest, message, *_ in context["findings"])
    elif detail["type"] == "extra_forbidden":
        yield path, _unknown_key_message(_find_model(model, path[:-1]), str(path[-1]))
    elif detail["type"] == "value_error":
        yield path, str(context["error"])
    else:
        yield path, _hint(model, path) if detail["type"] == "missing" else _MESSAGES.get(detail["type"], detail["msg"])


def _hint(model: type[Settings], path: KeyPath) -> str:
    owner = _find_model(model, path[:-1])
    extra = owner.model_fields[owner.attributes()[str(path[-1])]].json_schema_extra
    hint = extra.get("when_missing") if isinstance(extra, dict) else None
    return f"is required: {hint}" if hint else "is required"


@lru_cache(maxsize=4096)
def _unknown_key_message(model: type[Settings], key: str) -> str:
    if key in model.REMOVED:
        return model.REMOVED[key]
    if key in model.ELSEWHERE:
        return model.ELSEWHERE[key]
    known = list(model.attributes())
    written = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key[:80]).lower().replace("-", "_")
    if (setting := written.removesuffix("_file")) != written and setting in known:
        return f"unknown setting: {setting} has no file form"
    # Compare similar names only: a file may contain thousands of unknown keys.
    alike = [name for name in known if (name[0] == written[:1] or name[-2:] == written[-2:]) and abs(len(name) - len(written)) < 4]
    close = [written] if written in known else difflib.get_close_matches(written, alike, n=1)
    return f"unknown setting. Did you mean {close[0]}?" if close else f"unknown setting (gate v{RELEASE})"


def _find_model(model: type[Settings], path: KeyPath) -> type[Settings]:
    """Return the nested model at `path`; list indexes are skipped."""
    for part in path:
        if isinstance(part, str) and part in model.attributes():
            model = _nested(model, model.attributes()[part]) or model
    return model


@cache
def _nested(model: type[Settings], name: str) -> type[Settings] | None:
    pending = [model.model_fields[name].annotation]
    while pending:
        kind = pending.pop()
        if isinstance(kind, type) and issubclass(kind, Settings):
            return kind
        pending += getattr(kind, "__args__", ())
    return None


def valid_subset(model: type[Settings], raw: dict[str, Any], findings: Iterable[Finding], context: dict[str, Any]) -> ValidSubset:
    """Return the valid settings, on which rules can run although others are invalid."""
    invalid = {finding[0][0] for finding in findings if finding[0]}
    unsaid = model.defaults()
    values: dict[str, Any] = {}
    for key, name in model.attributes().items():
        if key in invalid:
            continue
        if key not in raw:
            values[name] = unsaid[name]
            continue
        try:
            values[name] = _adapter(model, name).validate_python(raw[key], context=context)
        except ValidationError:
            continue
    return ValidSubset(values)


@cache
def _adapter(model: type[Settings], name: str) -> TypeAdapter[Any]:
    field = model.model_fields[name]
    annotation: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    return TypeAdapter(annotation)
