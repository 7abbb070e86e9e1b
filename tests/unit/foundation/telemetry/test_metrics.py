"""Is every metric ours by name, and explained?"""

from foundation.telemetry.metrics import registry


def test_every_metric_is_explained() -> None:
    families = list(registry.collect())
    assert families
    assert all(family.documentation for family in families)
