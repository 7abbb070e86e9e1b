"""The catalog contains each declared key with its type, default and whether it is required."""

from datetime import timedelta
from typing import Any

import pytest

from config.reference.setting_catalog import SettingKey, format_duration, route_keys, settings_by_topic, to_config_value
from foundation.values import HostPort, Url

SETTINGS = {key.name: key for group in settings_by_topic().values() for key in group}
ROUTE_KEYS = {key.name: key for key in route_keys()}


@pytest.mark.parametrize(
    ("key", "kind", "default", "is_required"),
    [
        (SETTINGS["address"], "host:port", ":443", False),
        (SETTINGS["cookie_expire"], "duration", "14h", False),
        (SETTINGS["cookie_secret"], "base64 string or list", None, True),
        (SETTINGS["certificate_authority"], "base64 string", None, False),
        (SETTINGS["proxy_log_level"], "string", None, False),
        (SETTINGS["data_dir"], "file path", None, False),
        (SETTINGS["idp_scopes"], "list of string", None, False),
        (SETTINGS["certificates"], "array of objects", [], False),
        (SETTINGS["policy"], "array of objects", [], False),
        (ROUTE_KEYS["from"], "URL", None, True),
        (ROUTE_KEYS["redirect"], "object", None, False),
        (ROUTE_KEYS["timeout"], "duration", None, False),
    ],
    ids=lambda value: value.name if isinstance(value, SettingKey) else "",
)
def test_key_reports_its_description(key: SettingKey, kind: str, default: Any, is_required: bool) -> None:
    assert (key.type_name, key.default, key.is_required) == (kind, default, is_required)


@pytest.mark.parametrize(
    ("length", "text"),
    [(timedelta(0), "0"), (timedelta(hours=1, minutes=45), "1h45m"), (timedelta(milliseconds=300), "300ms"), (timedelta(hours=14), "14h")],
)
def test_a_duration_is_written_as_it_is_read(length: timedelta, text: str) -> None:
    assert format_duration(length) == text


def test_a_value_is_written_as_in_a_file() -> None:
    assert to_config_value({"a": (HostPort("", 443), Url("https", "a"), True, 1, None)}) == {"a": [":443", "https://a", True, 1, None]}
