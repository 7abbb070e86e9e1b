"""Do pauses grow, and end growing?"""

from itertools import islice

from databroker.backoff import LONGEST, pauses


def test_pauses_double_up_to_the_longest():
    waits = list(islice(pauses(0.1), 40))
    for attempt, wait in enumerate(waits):
        longest = min(LONGEST, 0.1 * 2**attempt)
        assert longest / 2 <= wait <= longest
