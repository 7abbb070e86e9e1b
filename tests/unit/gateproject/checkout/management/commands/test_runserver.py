"""Django's runserver names the commands that serve gate."""

import pytest
from django.conf import settings
from django.core.management import get_commands

from gateproject.checkout.management.commands.runserver import Command


@pytest.mark.parametrize("arguments", [[], ["8000"], ["--noreload", "0.0.0.0:80", "--http_timeout", "5"]])
def test_it_names_the_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "runserver", *arguments])
    assert ended.value.code == 1
    output = capsys.readouterr().err
    assert len(output.splitlines()) == 1
    for command in ("gate run", "daphne -p 8000 gateproject.asgi:application", "gate demo"):
        assert command in output


def test_daphne_is_the_gate_variant_and_precedes_staticfiles() -> None:
    assert get_commands()["runserver"] == "gateproject.checkout"
    apps = settings.INSTALLED_APPS
    assert apps.index("gateproject") < apps.index("daphne") < apps.index("django.contrib.staticfiles")
    assert "channels" in apps
    assert settings.ASGI_APPLICATION == "gateproject.asgi.application"
