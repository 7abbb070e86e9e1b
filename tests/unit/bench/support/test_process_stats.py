import os
import subprocess
import sys

import pytest

from bench.support.process_stats import CoreTime, cpu_seconds, family, mebibytes, resident

# user nice system idle iowait irq softirq steal guest guest_nice
STAT = """cpu  900 0 300 800 0 0 0 0 0 0
cpu0 100 10 50 800 40 5 5 10 0 0
cpu1 200 0 100 700 0 0 0 0 0 0
cpu10 9999 0 0 0 0 0 0 0 0 0
intr 1
"""


def test_cpu_time_is_read_with_steal_time_of_a_virtual_machine() -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    assert CoreTime.read(STAT, [0]) == CoreTime(180 / ticks, 1020 / ticks)
    assert CoreTime.read(STAT, [0, 1]) == CoreTime(480 / ticks, 2020 / ticks)


@pytest.mark.parametrize(("own", "share"), [(3.0, 0.25), (4.0, 0.0), (4.5, 0.0)])
def test_foreign_values_belong_to_other_system(own: float, share: float) -> None:
    assert CoreTime(busy=14.0, all=104.0).background_load(CoreTime(busy=10.0, all=100.0), own) == share


def test_no_time_is_nobodys() -> None:
    assert CoreTime(1.0, 1.0).background_load(CoreTime(1.0, 1.0), 0.0) == 0.0


def test_a_process_answers_for_all_below_it() -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    busy = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program, busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert len(family(process.pid)) == 2
        assert cpu_seconds(process.pid) >= 0.2  # the kernel counts in hundredths, each rounded
        assert mebibytes(process.pid) > 1
        assert resident(process.pid, "VmHWM") >= resident(process.pid) > 1 << 20
        process.stdin.close()
