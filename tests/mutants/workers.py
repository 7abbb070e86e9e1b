"""Defences of several processes on one port: one policy, whole lines, sums that never go backwards."""

from tests.mutants.mutant import door
from tests.mutants.operations import never, skips

WITHIN = "unit/gateproject/process/workers"

first = door("gateproject.process.workers.first", f"{WITHIN}/test_first.py")
first.without("what one worker refuses nobody takes", "FirstRuntime._prepare_others", never("problems"))
first.without("a worker that is silent keeps no old policy", "FirstRuntime._end_who_is_silent", skips("link.kill()"))
link = door("gateproject.process.workers.link", f"{WITHIN}/test_link.py")
link.without("no worker begins with what is being replaced", "WorkerLinks._begin", skips("await self._moved.wait_for(...)"))
summed = door("gateproject.process.workers.metrics_sum", f"{WITHIN}/test_metrics_sum.py")
summed.without("counters of all never go backwards", "MetricsSum.keep", never("_is_counted(name, family)"))
worker = door("gateproject.process.workers.worker", f"{WITHIN}/test_worker.py")
worker.without("what a worker knew before it was stopped lets nobody in", "watch_standstill", skips("stood_still()"))

DOORS = (first, link, summed, worker)
