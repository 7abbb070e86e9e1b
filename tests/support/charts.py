"""The chart deploy/helm, rendered by a real Helm without a cluster."""

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate.utils
import yaml

from tests.support.children import ROOT

CHART = ROOT / "deploy" / "helm" / "gate"
KUBERNETES = "1.34"
NAMESPACE, RELEASE = "access", "gate"

Manifest = dict[str, Any]

# Cached, because it would parse two megabytes of schemas for each manifest.
kubernetes_validate.utils.schema_contents = cache(kubernetes_validate.utils.schema_contents)


def helm(*arguments: str | Path, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """Return the Helm binary, which `.ci/test-tools` builds if it is not installed."""
    program = shutil.which("helm") or ROOT / "tests" / "support" / "helm" / "built" / "helm"
    return subprocess.run([program, *arguments], input=stdin, capture_output=True, text=True, timeout=60)


@cache
def rendered(text: str) -> Sequence[Manifest]:
    """Render the chart with values (as YAML). Raises AssertionError if the chart rejects them."""
    done = templated(text)
    assert done.returncode == 0, done.stderr
    return tuple(manifest for manifest in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if manifest)


def templated(text: str) -> "subprocess.CompletedProcess[str]":
    return helm("template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", f"{KUBERNETES}.0", "--values", "-", stdin=text)


def of_kind(manifests: Sequence[Manifest], kind: str) -> dict[str, Manifest]:
    """Return the manifests of this kind by name."""
    return {manifest["metadata"]["name"]: manifest for manifest in manifests if manifest["kind"] == kind}
