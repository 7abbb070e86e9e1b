"""How many requests a second pass gate with a valid session, against forwarders that do nothing else?

    python -m bench.requests

wrk -t1 -c32, nginx answering 1 KiB, five runs each, taken in turns; medians and their ratios.  Goals: at least 0.75 of the bare
Daphne + aiohttp forwarder with a p99 of at most 1.3 times its, 0.8 of the same with TLS, and twice mitmdump in reverse mode (from PyPI, in
an environment of its own).
"""

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import yaml

from bench.rig import BODY, HOST, child, free_port, gate_settings, pin, signed_in_cookie, start_nginx, start_provider, wait_for
from tests.support.certs import CertificateFiles, certificate_files

_RATE = re.compile(r"Requests/sec:\s+([\d.]+)")
_P99 = re.compile(r"99%\s+([\d.]+)(us|ms|s)")
_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


@dataclass(frozen=True)
class Contender:
    """`baseline` is the name of the contender that this one is measured against, `goal` the least ratio of requests/s."""

    name: str
    port: int
    headers: tuple[str, ...] = ()
    scheme: str = "http"
    baseline: str = ""
    goal: float = 0.0
    rates: list[float] = field(default_factory=list)
    p99s: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--no-mitmdump", action="store_true", help="do not make an environment for mitmdump")
    arguments = parser.parse_args()
    if missing := [command for command in ("wrk", "nginx") if shutil.which(command) is None]:
        sys.exit(f"missing: {', '.join(missing)} (apt-get install wrk nginx-light)")

    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        certificates = certificate_files(directory, HOST)
        upstream = start_nginx(stack, directory)
        contenders = [*start_bare(stack, upstream, certificates), *start_gates(stack, directory, upstream, certificates)]
        if not arguments.no_mitmdump:
            contenders.append(start_mitmdump(stack, directory, upstream))
        load_in_turns(contenders, arguments.runs, arguments.seconds)
    sys.exit(not report({contender.name: contender for contender in contenders}))


def report(contenders: dict[str, Contender]) -> bool:
    """Prints the table; True where every goal is reached."""
    print(f"{'wrk -t1 -c32, 1 KiB':32} {'requests/s':>10} {'ratio':>6} {'goal':>5} {'p99 ms':>7} {'ratio':>6}   runs")
    all_reached = True
    for contender in contenders.values():
        rate, p99 = statistics.median(contender.rates), statistics.median(contender.p99s)
        ratios = f"{'':6} {'':5} {p99:7.1f} {'':6}"
        if base := contenders.get(contender.baseline):
            ratio, slower = rate / statistics.median(base.rates), p99 / statistics.median(base.p99s)
            ratios = f"{ratio:6.2f} {contender.goal:5.2f} {p99:7.1f} {slower:6.2f}"
            all_reached &= ratio >= contender.goal
        print(f"{contender.name:32} {rate:10.0f} {ratios}   {' '.join(f'{each:.0f}' for each in contender.rates)}")
    return all_reached


def must_reach_the_upstream(contender: Contender) -> None:
    """wrk counts a redirect to the sign-in page as a success, and it would be a fast one: look at the answer itself."""
    headers = dict(header.split(": ", 1) for header in contender.headers)
    # The certificate is for the name, and the address is dialled: this looks at the answer, not at the certificate.
    response = httpx.get(contender.url, headers=headers, trust_env=False, verify=False)
    if (response.status_code, response.content) != (200, BODY.encode()):
        sys.exit(f"{contender.name}: answered {response.status_code} with {len(response.content)} bytes, not the upstream's page")


def load_in_turns(contenders: list[Contender], runs: int, seconds: int) -> None:
    """Each has warmed up before the first run that counts."""
    for contender in contenders:
        load(contender, 1)
        contender.rates.clear()
        contender.p99s.clear()
    for _ in range(runs):
        for contender in contenders:
            load(contender, seconds)


def load(contender: Contender, seconds: int) -> None:
    must_reach_the_upstream(contender)
    headers = [part for header in contender.headers for part in ("-H", header)]
    command = ["wrk", "-t1", "-c32", "--latency", f"-d{seconds}s", *headers, contender.url]
    output = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=lambda: pin(1)).stdout
    rate, p99 = _RATE.search(output), _P99.search(output)
    if rate is None or p99 is None or "Non-2xx" in output or "Socket errors" in output:
        sys.exit(f"{contender.name}: not every request succeeded\n{output}")
    must_reach_the_upstream(contender)
    contender.rates.append(float(rate[1]))
    contender.p99s.append(float(p99[1]) * _MILLISECONDS[p99[2]])


def start_bare(stack: ExitStack, upstream: str, certificates: CertificateFiles) -> Iterator[Contender]:
    for name, scheme in (("bare forwarder", "http"), ("bare forwarder, TLS", "https")):
        port = free_port()
        endpoint = f"tcp:{port}:interface=127.0.0.1"
        if scheme == "https":
            endpoint = f"ssl:{port}:privateKey={certificates.key}:certKey={certificates.certificate}:interface=127.0.0.1"
        command = [sys.executable, "-m", "daphne", "-v0", "-e", endpoint, "bench.bare_forwarder:application"]
        stack.enter_context(child(command, core=0, environment={"BARE_UPSTREAM": upstream}))
        wait_for(port)
        yield Contender(name, port, scheme=scheme)


def start_gates(stack: ExitStack, directory: Path, upstream: str, certificates: CertificateFiles) -> Iterator[Contender]:
    """Without the access log, like the baseline; with it, as it runs unless it is told otherwise; and with TLS."""
    provider = start_provider(stack)
    tls = {"insecure_server": None, "certificate_file": str(certificates.certificate), "certificate_key_file": str(certificates.key)}
    variants: tuple[tuple[str, str, float, dict[str, object]], ...] = (
        ("gate", "bare forwarder", 0.75, {"proxy_log_level": "warn"}),
        ("gate, access log", "bare forwarder", 0.75, {"proxy_log_level": "info"}),
        ("gate, TLS", "bare forwarder, TLS", 0.8, {"proxy_log_level": "warn", **tls}),
    )
    for number, (name, baseline, goal, settings) in enumerate(variants):
        port = free_port()
        config = directory / f"gate{number}.yaml"
        config.write_text(yaml.safe_dump({**gate_settings(directory, port, provider, upstream), **settings}))
        stack.enter_context(child([sys.executable, "manage.py", "rungate", "-config", str(config)], core=0, stdout=subprocess.DEVNULL))
        wait_for(port)
        scheme = "https" if "certificate_file" in settings else "http"
        headers = (f"Host: {HOST}", f"Cookie: {signed_in_cookie(port, scheme)}")
        yield Contender(name, port, headers, scheme, baseline, goal)


def start_mitmdump(stack: ExitStack, directory: Path, upstream: str) -> Contender:
    """gate is the one that has a goal against it, so the ratio reads the other way round: at most 0.5 of gate."""
    environment = directory / "mitmproxy"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    subprocess.run([environment / "bin" / "python", "-m", "pip", "install", "--quiet", "mitmproxy"], check=True)
    port = free_port()
    command = [str(environment / "bin" / "mitmdump"), "--quiet", "--mode", f"reverse:{upstream}", "--listen-host", "127.0.0.1"]
    options = ["--listen-port", str(port), "--set", f"confdir={directory / 'confdir'}"]
    stack.enter_context(child([*command, *options], core=0))
    wait_for(port)
    return Contender("mitmdump, reverse mode", port, baseline="gate", goal=0.0)


if __name__ == "__main__":
    main()
