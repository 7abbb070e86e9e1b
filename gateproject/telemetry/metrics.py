"""Which numbers does gate tell?  Every metric is declared here, once."""

import platform

from prometheus_client import CollectorRegistry, Counter, Gauge

registry = CollectorRegistry()

shadow_decisions = Counter(
    "gate_shadow_decisions",
    "Requests that something in `mode: shadow` bears on: what it would have come to, and what it did come to (`enforced`).",
    ["route", "outcome", "enforced"],
    registry=registry,
)
decisions_not_kept = Counter(
    "gate_decision_log_dropped", "Decisions that the decision log should have kept and did not: they came too fast.", registry=registry
)
unreadable_records = Counter(
    "gate_unreadable_records", "Stored records that were left out because they don't decrypt or parse.", ["type"], registry=registry
)

build_info = Gauge("gate_build_info", "Always 1: what runs.", ["service", "version", "revision", "python"], registry=registry)
config_checksum = Gauge(
    "gate_config_checksum_int64", "Of the configuration in force: the same number where it is the same.", ["service"], registry=registry
)
config_last_reload_success = Gauge(
    "gate_config_last_reload_success", "1, or 0 where the last attempt was refused and an older one stays.", ["service"], registry=registry
)
config_last_reload_success_timestamp = Gauge(
    "gate_config_last_reload_success_timestamp", "When the configuration in force was loaded, Unix seconds.", ["service"], registry=registry
)


def running(service: str, version: str) -> None:
    """`version` is `v<release>+<revision>`."""
    release, _, revision = version.removeprefix("v").partition("+")
    build_info.labels(service, release, revision, platform.python_version()).set(1)


def configuration_in_force(service: str, checksum: int, loaded: float) -> None:
    config_checksum.labels(service).set(checksum)
    config_last_reload_success.labels(service).set(1)
    config_last_reload_success_timestamp.labels(service).set(loaded)


def configuration_refused(service: str) -> None:
    config_last_reload_success.labels(service).set(0)
