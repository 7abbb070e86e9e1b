"""A package of one small module, run as the product's are: what is noticed, by which test, and what is not."""

import json
import subprocess
import sys
from pathlib import Path

from tests.mutants.guards import ROOT

MODULE = """
RULES = (str.isascii, str.isalnum)

def check(text):
    if text == "odd":
        raise ValueError(text)
    if len(text) > 9:
        raise ValueError(text)
    return [rule(text) for rule in RULES]

def count(text):
    while text:
        text = text[1:]
        check("long")
    return not text

def parts():
    return ["a"] if RULES else []
"""
TESTS = """
import pytest
import sample

@pytest.fixture(scope="module")
def parts(): return sample.parts()

def test_odd():
    with pytest.raises(ValueError): sample.check("odd")

def test_both_rules_hold(): assert sample.check("ab") == [True, True]
def test_count(): assert sample.count("ab")
def test_first(parts): assert parts is not None
def test_second(parts): assert parts == ["a"]
"""
UNNOTICED = ["check never _() > 9", "count skips _()", "parts always _"]
RUN = """
import json, sys
from pathlib import Path
from tests.mutants import package_run
package_run.ROOT = Path(sys.argv[1])
_, mutants = package_run.instrumented(["sample"])
found = package_run.run(["sample"], mutants, [sys.argv[1] + "/test_sample.py"])
print(json.dumps({mutant.key: test for mutant, (_, test) in zip(mutants, found)}))
"""


def test_each_mutant_is_killed_by_its_test(tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text(MODULE)
    (tmp_path / "test_sample.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {tmp_path}\n")
    run = subprocess.run([sys.executable, "-c", RUN, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert run.returncode == 0, run.stderr
    found = {key: test.rpartition("::")[2] for key, test in json.loads(run.stdout).items()}
    assert sorted(key for key, test in found.items() if not test) == UNNOTICED
    assert found["check never _ == 'odd'"] == "test_odd"
    assert found["parts never _"] == "test_second"
    assert found["module lacks _"] == "test_both_rules_hold"
