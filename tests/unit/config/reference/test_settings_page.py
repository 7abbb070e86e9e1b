"""The page lists every key once, in Markdown that renders."""

import re

from config.reference.all_settings import keys, nested, route_keys, settings
from config.reference.settings_page import settings_page

PAGE = settings_page()
ROWS = re.findall(r"^\| (`\w+` \|.*) \|$", PAGE, re.MULTILINE)


def test_every_key_has_its_row() -> None:
    names = [key.name for group in settings().values() for key in group] + [key.name for key in route_keys()]
    names += [
        key.name for _, model in nested([*route_keys(), *(key for group in settings().values() for key in group)]) for key in keys(model)
    ]
    listed = [row.split("`")[1] for row in ROWS]
    assert [name for name in names if name not in listed] == []


def test_a_row_says_environment_variable_type_default_meaning_and_example() -> None:
    assert (
        "`cookie_expire` | `COOKIE_EXPIRE` | duration | `14h` | Lifetime of a session; after it people must sign in again. | `1h45m`"
        in ROWS
    )
    assert any(row.startswith("`certificates` | file only | array of objects |") for row in ROWS)
    assert any(row.startswith("`cookie_secret` | `COOKIE_SECRET` | base64 string or list | required |") for row in ROWS)
    assert any(row.startswith("`proxy_log_level` | `PROXY_LOG_LEVEL` | string | the value of `log_level` |") for row in ROWS)


def test_tables_have_equal_numbers_of_cells() -> None:
    for table in re.split(r"\n\n", PAGE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines() if line.startswith("|")}
        assert len(widths) <= 1
