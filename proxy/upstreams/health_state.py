"""Health of an upstream by the results of one health check."""

from dataclasses import dataclass


class HealthCheckFailed(Exception):
    """Failure of a check; the message says how.  `immediate`: the upstream itself says so, and no threshold is waited for."""

    def __init__(self, message: str, *, immediate: bool = False):
        super().__init__(message)
        self.immediate = immediate


@dataclass(slots=True)
class HealthState:
    """Health by one check's results.  Until the first of them an upstream is asked: nothing speaks against it."""

    unhealthy_threshold: int
    healthy_threshold: int
    is_healthy: bool = True
    _consecutive: int = 0  # results that speak against `is_healthy`
    _is_new: bool = True

    def record(self, *, success: bool, immediate: bool = False) -> bool:
        """Result of a check; true where it changes `is_healthy`."""
        threshold = self.healthy_threshold if success else self.unhealthy_threshold
        self._consecutive = 0 if success == self.is_healthy else self._consecutive + 1
        changed = self._consecutive >= threshold or (self._consecutive > 0 and (self._is_new or immediate))
        self._is_new = False
        if changed:
            self.is_healthy, self._consecutive = success, 0
        return changed
