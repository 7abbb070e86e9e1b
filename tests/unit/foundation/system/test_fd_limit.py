import subprocess
import sys

import pytest

from foundation.system.fd_limit import MAX_PREALLOCATED

SCRIPT = """
import resource, sys
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
hard = min(hard, int(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
from foundation.system.fd_limit import raise_limit
raise_limit()
raise_limit()
size = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("FDSize:"))
print(hard, *resource.getrlimit(resource.RLIMIT_NOFILE), size)
"""


@pytest.mark.parametrize("limit", [3000, 10 * MAX_PREALLOCATED])
def test_the_hard_limit_counts_and_the_table_need_not_grow_any_more(limit: int) -> None:
    completed = subprocess.run([sys.executable, "-c", SCRIPT, str(limit)], capture_output=True, text=True, check=True)
    wanted, soft, hard, size = map(int, completed.stdout.split())
    assert soft == hard == wanted
    assert size >= min(wanted, MAX_PREALLOCATED)
