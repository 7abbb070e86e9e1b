"""A readiness report without problems."""

from foundation.readiness import ComponentStatus, ReadinessReport

READY = ReadinessReport((ComponentStatus("config"),))
