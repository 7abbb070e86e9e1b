"""Health of an upstream by the results of one health check."""

from dataclasses import dataclass


class HealthCheckFailed(Exception):
    """Failure of a health check. If `immediate`, the upstream itself reported it, so no threshold applies."""

    def __init__(self, message: str, *, immediate: bool = False):
        super().__init__(message)
        self.immediate = immediate


@dataclass(slots=True)
class HealthState:
    """Health by the results of one check. An upstream is healthy until the first result, which applies without a threshold."""

    unhealthy_threshold: int
    healthy_threshold: int
    is_healthy: bool = True
    _consecutive: int = 0  # consecutive results that contradict `is_healthy`
    _is_new: bool = True

    def record(self, *, success: bool, immediate: bool = False) -> bool:
        """Record the result of a check. Return whether it changes `is_healthy`."""
        threshold = self.healthy_threshold if success else self.unhealthy_threshold
        self._consecutive = 0 if success == self.is_healthy else self._consecutive + 1
        changed = self._consecutive >= threshold or (self._consecutive > 0 and (self._is_new or immediate))
        self._is_new = False
        if changed:
            self.is_healthy, self._consecutive = success, 0
        return changed
