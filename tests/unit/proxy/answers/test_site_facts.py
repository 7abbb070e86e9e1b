from pathlib import Path

from proxy.answers.site_facts import site_facts
from tests.support.options import make_options


def test_pages_say_what_the_configuration_says(tmp_path: Path) -> None:
    assert site_facts(make_options(tmp_path)).contact == ""
    assert site_facts(make_options(tmp_path, support_contact="help@corp.com")).contact == "mailto:help@corp.com"
