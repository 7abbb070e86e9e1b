"""Each key of oauth2-proxy has one fate, and leads to a setting that exists."""

import itertools

from config.importing.oauth2_proxy_keys import CHECKED, HANDLED, LOST, SAME
from config.options import Options


def test_no_key_has_two_fates() -> None:
    for one, other in itertools.combinations((set(SAME), set(CHECKED), set(LOST), HANDLED), 2):
        assert not one & other


def test_converted_values_use_existing_settings() -> None:
    assert {*SAME.values(), *(key for key, _ in CHECKED.values())} <= {*Options.attributes()}
