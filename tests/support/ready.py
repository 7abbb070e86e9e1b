"""A report of readiness without a trouble."""

from foundation.readiness import ComponentStatus, ReadinessReport

READY = ReadinessReport((ComponentStatus("config"),))
