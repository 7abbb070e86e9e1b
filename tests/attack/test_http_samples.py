"""A seeded sample of each attack over HTTP; `make attack` runs them whole."""

import pytest

from tests.attack.run import Attack, check_sample, load_attacks
from tests.attack.target import Target

ATTACKS = [chosen for chosen in load_attacks("http") if chosen.cases.__module__.startswith("tests.attack.http_")]
# Without a sample: what takes its time, and is like another that has one.
SAMPLED = [chosen for chosen in ATTACKS if chosen.sample]


@pytest.mark.parametrize("chosen", SAMPLED, ids=lambda chosen: f"{chosen.name} {chosen.title}")
def test_a_sample_of_the_attack_is_withstood(target: Target, chosen: Attack) -> None:
    check_sample(target, chosen)


def test_every_class_of_attacks_over_http_is_here() -> None:
    wanted = "B1 B2 B3 B4 B5 B6 B7 B8 B14 B16 B17 B18 B19 B20 B21 B22 B25 B29 B35 B37 B41 B42 B43 B45 B46 B47 B48 B50 B51 B52 B54"
    assert {chosen.name for chosen in ATTACKS} == set(wanted.split())
