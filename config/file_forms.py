"""File forms of settings: `cookie_secret_file` names a file whose content is the value of `cookie_secret`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from config.fields.setting_files import SettingFiles
from config.validation import Finding, Settings


@cache
def file_forms(model: type[Settings]) -> Mapping[str, Mapping[str, Any]]:
    """Return the keys declared with `file_form`, each with its declaration."""
    declared = ((name, info.json_schema_extra) for name, info in model.model_fields.items())
    return {name: extra for name, extra in declared if isinstance(extra, dict) and "file_form_of" in extra}


@dataclass(slots=True)
class FileContents:
    """Contents of the files that replace inline values.

    `values` are settings in their configuration form. `keys` maps each setting to the key that names its file. Settings in `unread` have no
    value; `findings` or the validation of the key gives the reason.
    """

    values: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)

    def add(self, key: str, declared: Mapping[str, Any], raw: Mapping[str, Any], files: SettingFiles) -> None:
        setting = str(declared["file_form_of"])
        if setting in raw:
            self.findings.append(((setting,), f"is set together with {key}. Set only one of them"))
            return
        self.keys[setting] = key
        try:
            file = files.read(raw[key]) if isinstance(raw[key], str) else None
        except ValueError:
            file = None  # the validation of the key reports it
        if file is None:
            self.unread.add(setting)
            return
        self.values[key] = file
        try:
            self.values[setting] = _value(file.content, has_lines=bool(declared["has_lines"]))
        except ValueError as error:
            self.unread.add(setting)
            self.findings.append(((key,), str(error)))


def read_contents(model: type[Settings], raw: Mapping[str, Any], files: SettingFiles) -> FileContents:
    """Read the file of each setting of `model` that is set in its file form."""
    contents = FileContents()
    for key, declared in file_forms(model).items():
        if raw.get(key) is not None:
            contents.add(key, declared, raw, files)
    return contents


def _value(content: bytes, *, has_lines: bool) -> str | list[str]:
    try:
        lines = content.decode("utf-8-sig").rstrip("\r\n").splitlines() or [""]
    except UnicodeDecodeError:
        raise ValueError("the file must contain text in UTF-8") from None
    if len(lines) == 1:
        return lines[0]
    if not has_lines:
        raise ValueError("the file must contain only the value, on one line")
    return [line for line in lines if line.strip()]
