"""Every metric has a valid name and a help text."""

from foundation.telemetry import metrics
from foundation.telemetry.metrics import registry


def test_every_metric_is_explained() -> None:
    families = list(registry.collect())
    assert families
    assert all(family.documentation for family in families)


def test_a_certificate_that_another_source_serves_keeps_its_expiry() -> None:
    """A host whose certificate was obtained, and is configured since a reload."""

    def expiries() -> dict[str, float]:
        (family,) = metrics.certificate_expiry.collect()
        return {sample.labels["name"]: sample.value for sample in family.samples}

    metrics.set_certificate_expiries("autocert", {"a.example": 1.0, "b.example": 2.0})
    metrics.set_certificate_expiries("configuration", {"a.example": 5.0})
    assert expiries() == {"a.example": 1.0, "b.example": 2.0}
    metrics.set_certificate_expiries("autocert", {})
    assert expiries() == {"a.example": 5.0}
    metrics.set_certificate_expiries("configuration", {})
    assert expiries() == {}
