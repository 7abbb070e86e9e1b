"""What does `data_plane: envoy` cost and bring, against the embedded one in the same run?

    python -m bench.envoy

wrk -t1 -c32 over TLS with a valid session; nginx answers 1 KiB.  gate and its Envoy share one core, as the embedded plane has it.
There is no goal: the figures are for whoever chooses (docs/envoy.md).
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import yaml

from bench.requests import Contender, load_in_turns, report
from bench.rig import HOST, child, free_port, gate_settings, signed_in_cookie, start_nginx, start_provider, wait_for
from tests.support.certs import CertificateFiles, certificate_files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    arguments = parser.parse_args()
    if missing := [command for command in ("wrk", "nginx") if shutil.which(command) is None]:
        sys.exit(f"missing: {', '.join(missing)} (apt-get install wrk nginx-light)")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        certificates = certificate_files(directory, HOST)
        contenders = list(start_gates(stack, directory, start_nginx(stack, directory), certificates))
        load_in_turns(contenders, arguments.runs, arguments.seconds)
    report({contender.name: contender for contender in contenders})


def start_gates(stack: ExitStack, directory: Path, upstream: str, certificates: CertificateFiles) -> Iterator[Contender]:
    provider = start_provider(stack)
    tls = {"insecure_server": None, "certificate_file": str(certificates.certificate), "certificate_key_file": str(certificates.key)}
    for plane in ("embedded", "envoy"):
        port = free_port()
        config = directory / f"{plane}.yaml"
        settings = gate_settings(directory, port, provider, upstream) | {"data_plane": plane, "proxy_log_level": "warn", **tls}
        config.write_text(yaml.safe_dump(settings))
        stack.enter_context(child([sys.executable, "manage.py", "rungate", "-config", str(config)], core=0, stdout=subprocess.DEVNULL))
        wait_for(port)
        headers = (f"Host: {HOST}", f"Cookie: {signed_in_cookie(port, 'https')}")
        yield Contender(plane, port, headers, "https", "" if plane == "embedded" else "embedded")


if __name__ == "__main__":
    main()
