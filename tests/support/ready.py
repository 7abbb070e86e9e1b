"""A report of readiness without a trouble."""

from foundation.readiness import PartReadiness, ReadinessReport

READY = ReadinessReport((PartReadiness("config"),))
