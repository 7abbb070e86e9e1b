"""A seeded sample of each attack on TLS itself; `make attack` runs them whole."""

import pytest

from tests.attack.run import Attack, check_sample, load_attacks
from tests.attack.target import Target

ATTACKS = [chosen for chosen in load_attacks("tls") if chosen.cases.__module__.startswith("tests.attack.tls_")]


@pytest.mark.parametrize("chosen", ATTACKS, ids=lambda chosen: f"{chosen.name} {chosen.title}")
def test_gate_withstands_a_sample_of(target: Target, chosen: Attack) -> None:
    check_sample(target, chosen)


def test_every_class_of_attacks_on_tls_is_here() -> None:
    assert {chosen.name for chosen in ATTACKS} == {"B34"}
