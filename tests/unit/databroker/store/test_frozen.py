"""Frozen data is immutable, and is still a dict and list for other code."""

import copy
import json
import pickle

import pytest

from databroker.store.frozen import FrozenDict, FrozenList, frozen_data


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(a=1),
        lambda data: data.pop("list"),
        lambda data: data.popitem(),
        lambda data: data.clear(),
        lambda data: data.setdefault("b", 1),
        lambda data: data.__setitem__("b", 1),
        lambda data: data.__delitem__("list"),
        lambda data: data.__ior__({"b": 1}),
        lambda data: data["list"].append(1),
        lambda data: data["list"].extend([1]),
        lambda data: data["list"].insert(0, 1),
        lambda data: data["list"].pop(),
        lambda data: data["list"].remove(1),
        lambda data: data["list"].clear(),
        lambda data: data["list"].sort(),
        lambda data: data["list"].reverse(),
        lambda data: data["list"].__setitem__(0, 2),
        lambda data: data["list"].__delitem__(0),
        lambda data: data["list"].__iadd__([1]),
        lambda data: data["list"].__imul__(2),
        lambda data: data["dict"].update(a=1),
    ],
)
def test_every_way_to_change_it_is_refused(change):
    data = frozen_data({"list": [1], "dict": {"a": ("b",)}})
    with pytest.raises(TypeError, match="can't be changed"):
        change(data)
    assert data == {"list": [1], "dict": {"a": ["b"]}}


def test_no_method_that_changes_was_forgotten():
    untouched = {"__init__", "__class__", "__setattr__", "__delattr__", "__init_subclass__"}
    for frozen, reading in ((FrozenDict, {"copy", "fromkeys", "get", "items", "keys", "values"}), (FrozenList, {"copy", "count", "index"})):
        inherited = {name for name in dir(frozen) if name not in vars(frozen) and not name.startswith("__")}
        assert inherited - untouched == reading


def test_it_is_copied_pickled_and_written_like_any_other():
    data = frozen_data({"list": [1, {"a": None}]})
    for again in (copy.copy(data), copy.deepcopy(data), pickle.loads(pickle.dumps(data)), json.loads(json.dumps(data))):
        assert again == data


def test_a_copy_of_it_can_be_changed():
    data = frozen_data({"a": 1})
    assert {**data, "a": 2} == {"a": 2}
    assert data.copy() | {"a": 3} == {"a": 3}
