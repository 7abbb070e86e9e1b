"""Which numbers does gate tell?  Every metric is declared here, once."""

from prometheus_client import CollectorRegistry, Counter

registry = CollectorRegistry()

unreadable_records = Counter(
    "gate_unreadable_records", "Stored records that were left out because they don't decrypt or parse.", ["type"], registry=registry
)
