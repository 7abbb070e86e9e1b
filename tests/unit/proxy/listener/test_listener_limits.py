import math

from proxy.listener.listener_limits import ListenerLimits
from tests.support.options import make_options


def test_limits_come_from_the_options_in_seconds(tmp_path):
    options = make_options(tmp_path, timeout_read="1500ms", timeout_write="2m", timeout_idle="1h")
    assert ListenerLimits.from_options(options) == ListenerLimits(1.5, 120, 3600)


def test_zero_means_no_limit(tmp_path):
    options = make_options(tmp_path, timeout_read="0s", timeout_idle="0s")
    assert ListenerLimits.from_options(options) == ListenerLimits(math.inf, math.inf, math.inf)
