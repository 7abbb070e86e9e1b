"""Scripts of `.ci/` as modules."""

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import ModuleType

from tests.support.children import ROOT


def load_ci_script(name: str) -> ModuleType:
    loader = SourceFileLoader(name, str(ROOT / ".ci" / name))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look it up
    loader.exec_module(module)
    return module
