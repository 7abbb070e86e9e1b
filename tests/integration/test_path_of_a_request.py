"""How far must somebody walk who follows one allowed GET through the code?  No further than this, and into no room twice."""

from pathlib import Path

import pytest

from bench.path_of_a_request import LASTING, MOST_FILES, Call, entered_twice, files_of, traced_request, without_others

pytestmark = pytest.mark.slow


def test_one_allowed_get_enters_few_files_and_none_twice() -> None:
    calls = traced_request()
    assert {"proxy/listener/http1/head.py", "authorize/policy/decision.py", "proxy/forwarding/http.py"} <= set(files_of(calls))
    assert [f"{call.file}: {call.function}, called by {call.caller}" for call in entered_twice(calls)] == []
    assert len(files_of(calls)) <= MOST_FILES, files_of(calls)


def test_what_lasts_is_a_file() -> None:
    assert [file for file in LASTING if not Path(file).is_file()] == []


def test_what_goes_on_beside_the_request_is_left_out() -> None:
    loop = {"caller": "", "is_under_way": False, "is_of_value": False}
    request = Call("proxy/listener/http1/request.py", "Exchange._run", is_new=False, **loop)
    look = Call("proxy/planes/open_streams.py", "OpenStreams.run", is_new=False, **loop)
    timer = Call("databroker/replica.py", "Replica._grow_old", is_new=True, **loop)
    assert without_others([request, call("a.py", "x.py"), look, call("b.py", "x.py"), timer, call("c.py", "x.py"), request]) == [
        request,
        call("a.py", "x.py"),
        request,
    ]


def call(file: str, caller: str, *, is_under_way: bool = False, is_new: bool = True, is_of_value: bool = False) -> Call:
    return Call(file, "f", caller, is_under_way, is_new, is_of_value)


def test_what_comes_back_after_another_file_is_a_second_entry() -> None:
    first, other = call("b.py", "a.py"), call("c.py", "a.py")
    assert entered_twice([first, first, other]) == []
    assert entered_twice([first, other, first]) == [first]
    for again in ({"is_under_way": True}, {"is_new": False}, {"is_of_value": True}):
        assert entered_twice([first, other, call("b.py", "a.py", **again)]) == []
    assert entered_twice([first, other, call("b.py", "")]) == [], "the event loop calls it"
