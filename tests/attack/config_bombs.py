"""B26: does a hostile configuration end in one clear line for each mistake, soon, and without much memory?

Each case runs `manage.py checkconfig`: exit 1, no traceback, every line an error with its file, within a few seconds of
processor time and 300 MiB.  A file that is only large must pass within the same bounds.
"""

import asyncio
import base64
import json
import os
import resource
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target
from tests.support.options import MINIMAL

ROOT = Path(__file__).parents[2]
# Of the process itself.  A bomb takes minutes; how fast a large honest file is read is bench/config_load.py's to measure.
MAX_SECONDS = 15.0
MAX_MEMORY = 300 << 20
MEBIBYTE = 1 << 20
RIGHT = json.dumps(MINIMAL)[1:-1]
SECRET = "hunter2sEcReT"

_MEASURE = """import json, resource, subprocess, sys
run = subprocess.run(sys.argv[1:], capture_output=True, text=True, errors="replace")
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([run.returncode, run.stdout, run.stderr, used.ru_utime + used.ru_stime, used.ru_maxrss]))"""

Prepare = Callable[[Path], None]


def _bomb(opening: str, closing: str, levels: int, width: int, *, prefix: str = "") -> str:
    lines = [f"a0: &a0 {opening}{', '.join([prefix + 'x'] * width)}{closing}"]
    lines += [f"a{level}: &a{level} {opening}{', '.join([f'{prefix}*a{level - 1}'] * width)}{closing}" for level in range(1, levels)]
    return "\n".join(lines)


def _texts() -> Iterator[tuple[str, str, bytes]]:
    """Label, extension, content: all of them wrong."""
    for levels, width in ((10, 9), (30, 9), (60, 2), (20, 20), (5, 200), (3, 3000)):
        yield f"lists of aliases, {levels} levels of {width}", "yaml", _bomb("[", "]", levels, width).encode()
    maps = [f"a{level}: &a{level} {{{', '.join(f'k{key}: *a{level - 1}' for key in range(9))}}}" for level in range(1, 30)]
    yield "maps of aliases", "yaml", "\n".join(["a0: &a0 {k: x}", *maps]).encode()
    merges = [f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 50)}], k{level}: x}}" for level in range(1, 200)]
    yield "merges of merges", "yaml", "\n".join(["a0: &a0 {k: x}", *merges]).encode()
    yield "an alias of itself", "yaml", b"policy: &a [*a]"
    yield "policy of aliases", "yaml", b"r: &r {from: https://a.example.com, to: http://u}\npolicy: [" + b"*r, " * 300_000 + b"]"
    for tag in (
        "!!python/object/apply:os.system [id]",
        "!!python/name:os.system",
        "!!python/module:os",
        "!!binary aGk=",
        "!!set {a}",
        "!x a",
    ):
        yield f"tag {tag}", "yaml", f"cookie_name: {tag}".encode()
    yield "tag directive", "yaml", b"%TAG ! tag:yaml.org,2002:python/\n---\ncookie_name: !name:os.system x"
    for opening in ("[", "{a: ", "- ", "? ", "[{", "&a [", "- - "):
        yield f"depth of {opening!r}", "yaml", opening.encode() * 200_000
    for opening in ("[", '{"a":', '[{"a":'):
        yield f"depth of {opening!r} in JSON", "json", opening.encode() * 200_000
    yield "depth in TOML", "toml", b"a = " + b"[" * 200_000
    yield "depth of TOML's names", "toml", b".".join([b"a"] * 100_000) + b" = 1"
    yield "depth of properties", "properties", b".".join([b"a"] * 100_000) + b" = 1"
    yield "a key twice", "yaml", f"cookie_name: {SECRET}\ncookie_name: b".encode()
    yield "a key twice in JSON", "json", f'{{{RIGHT}, "cookie_name": "{SECRET}", "cookie_name": "b"}}'.encode()
    yield "a key twice in TOML", "toml", f'cookie_name = "{SECRET}"\ncookie_name = "b"'.encode()
    yield "a key twice in properties", "properties", f"cookie_name = {SECRET}\ncookie_name = b".encode()
    yield "many keys twice", "json", ("{" + '"a": 1,' * 500_000 + '"b": 1}').encode()
    yield "many unknown keys", "yaml", "\n".join(f"unknown{number}: {SECRET}" for number in range(20_000)).encode()
    yield "many unknown keys of routes", "yaml", ("policy:\n" + "".join(f"- {{u{number}: x}}\n" for number in range(20_000))).encode()
    yield "NUL", "yaml", f"cookie_secret: {SECRET}\0".encode()
    yield "only NUL", "yaml", b"\0" * MEBIBYTE
    yield "NUL in JSON", "json", f'{{"cookie_name": "{SECRET}\0"}}'.encode()
    for encoding in ("utf-16", "utf-32", "utf-16-le", "cp037"):
        yield encoding, "yaml", f"cookie_secret: {SECRET}\n".encode(encoding)
    yield "Latin-1", "yaml", f"cookie_secret: {SECRET}é".encode("latin-1")
    yield "surrogates", "json", b'{"cookie_name": "\\ud800"}'
    yield "overlong UTF-8", "yaml", b"cookie_name: \xc0\xae"
    yield "many keys twice in YAML", "yaml", b"a: 1\n" * 290_000
    yield "many keys twice in properties", "properties", b"a = 1\n" * 500_000
    yield "unknown keys before one twice", "json", b"{" + b",".join(b'"k%d":1' % number for number in range(290_000)) + b',"k0":1}'
    yield "depth of TOML's quoted names", "toml", b".".join([b"'a'"] * 100_000) + b" = 1"
    yield "depth of a TOML table's name", "toml", b"[" + b".".join([b"'a'"] * 100_000) + b"]"
    yield "deep names in TOML", "toml", b"".join(b"a%d" % number + b".a" * 60 + b" = 1\n" for number in range(5_000))
    yield "10 MB of TOML values", "toml", b"a = [" + b"1," * (5 * MEBIBYTE) + b"]"
    yield "TOML keys", "toml", b"".join(b"k%d=1\n" % number for number in range(600_000))
    yield "TOML tables", "toml", b"[[policy]]\n" * 300_000
    yield "a TOML text of 15 MB", "toml", b'a = """' + b"x" * (15 * MEBIBYTE) + b'"""'
    yield "15 MB of backslashes in properties", "properties", b"a=" + b"\\" * (15 * MEBIBYTE)
    yield "15 MB of lines of properties", "properties", b"a\n" * (15 * MEBIBYTE // 2)
    yield "15 MB of empty lists in JSON", "json", b"[" + b"[]," * (5 * MEBIBYTE - 2) + b"[]]"
    yield "a document of everything else", "yaml", b"--- a\n--- b"
    yield "huge number", "json", b'{"cookie_expire": ' + b"9" * MEBIBYTE + b"}"
    yield "huge number in YAML", "yaml", b"cookie_expire: " + b"9" * MEBIBYTE
    yield "10 MB of values", "yaml", b"- a\n" * (10 * MEBIBYTE // 4)
    yield "10 MB of keys", "yaml", "\n".join(f"k{number}:" for number in range(1_100_000)).encode()
    yield "10 MB of commas", "yaml", b"policy: [" + b"a," * (5 * MEBIBYTE)
    yield "10 MB of one line of JSON", "json", b'{"a": [' + b"1," * (5 * MEBIBYTE) + b"1]}"
    yield "10 MB of lines without a word", "yaml", b"# x\n" * (10 * MEBIBYTE // 4) + json.dumps(MINIMAL).encode()
    yield (
        "a regex of 1 MB",
        "json",
        f'{{{RIGHT}, "policy": [{{"from": "https://a", "to": "http://b", "regex": "{"(a+)+" * 200_000}"}}]}}'.encode(),
    )


def _is_only_large() -> Iterator[tuple[str, str, bytes]]:
    yield "10 MB of comment", "yaml", (b"# %b\n" % (b"x" * 97)) * (10 * MEBIBYTE // 100) + json.dumps(MINIMAL).encode()
    yield "10 MB of blanks in JSON", "json", json.dumps(MINIMAL).encode() + b" " * (10 * MEBIBYTE)
    headers = {f"X-{number}": "x" * 1000 for number in range(10_000)}
    yield "10 MB of headers", "json", json.dumps({**MINIMAL, "headers": headers}).encode()


def _files() -> Iterator[tuple[str, Prepare]]:
    """Paths that are named like a configuration and cannot be read."""
    yield "missing", lambda path: None
    yield "directory", lambda path: path.mkdir()
    yield "pipe", lambda path: os.mkfifo(path)
    yield "link to itself", lambda path: path.symlink_to(path.name)
    yield "link to nothing", lambda path: path.symlink_to("nothing.yaml")
    yield "endless device", lambda path: path.symlink_to("/dev/zero")
    yield "terminal", lambda path: path.symlink_to("/dev/tty")
    yield "100 MB", lambda path: os.truncate(path, 100 * MEBIBYTE) if path.touch() is None else None
    yield "a terabyte of nothing", lambda path: os.truncate(path, 1 << 40) if path.touch() is None else None
    yield "socket", _socket


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def _policies() -> Iterator[tuple[str, str]]:
    yield "no base64", f"not base64 {SECRET}"
    yield "no list", base64.b64encode(b"a: 1").decode()
    yield "no YAML", base64.b64encode(f"- {{from: {SECRET}".encode()).decode()
    yield "bomb", base64.b64encode(_bomb("[", "]", 30, 9).encode()).decode()
    yield "tag", base64.b64encode(b"!!python/name:os.system x").decode()
    yield "two elements", ",".join([base64.b64encode(b"- {}").decode()] * 2)
    yield "depth", base64.b64encode(b"[" * 90_000).decode()


@attack("B26", "hostile configurations", together=2, sample=8, minutes=0.6)
def hostile_configurations(target: Target) -> Iterator[Case]:
    for label, extension, content in _texts():
        yield Case(label, partial(_check, f"config.{extension}", partial(_write, content), None, REFUSED))
    for label, extension, content in _is_only_large():
        yield Case(label, partial(_check, f"config.{extension}", partial(_write, content), None, ACCEPTED))
    for label, prepare in _files():
        yield Case(label, partial(_check, "config.yaml", prepare, None, REFUSED))
    for label, policy in _policies():
        right = partial(_write, json.dumps(MINIMAL).encode())
        yield Case(f"POLICY: {label}", partial(_check, "config.yaml", right, policy, REFUSED))


def _write(content: bytes, path: Path) -> None:
    path.write_bytes(content)


async def _check(name: str, prepare: Prepare, policy: str | None, wanted: Outcome, target: Target) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="gate-b26-") as directory:
        path = Path(directory) / name
        prepare(path)
        environment = {key: value for key, value in os.environ.items() if key != "GATE_CONFIG"} | ({"POLICY": policy} if policy else {})
        command = [sys.executable, "-c", _MEASURE, sys.executable, "manage.py", "checkconfig", "-config", str(path)]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE, preexec_fn=_no_core, limit=1 << 26
        )
        output, _ = await process.communicate()
    code, report, errors, seconds, kibibytes = json.loads(output)
    _evaluate(report, errors, code, wanted)
    expect(seconds <= MAX_SECONDS, f"took {seconds:.1f} s of processor time")
    expect(kibibytes << 10 <= MAX_MEMORY, f"took {kibibytes >> 10} MiB")
    return wanted


def _evaluate(report: str, errors: str, code: int, wanted: Outcome) -> None:
    presented = report[:2000].encode()
    expect("Traceback" not in report + errors, "there is a traceback", presented, errors[-2000:].encode())
    expect(not errors, "something is written beside the report", errors[:2000].encode())
    expect(SECRET not in report, "a value is shown", presented)
    expect(code == (0 if wanted is ACCEPTED else 1), f"exit {code}", presented)
    *problems, summary = report.splitlines()
    expect(all(": error: " in line or ": warning: " in line for line in problems), "a line is no problem", presented)
    expect(wanted is ACCEPTED or len(problems) >= 1, "nothing is report", presented)
    expect(len(problems) <= 1100 and all(len(line) < 1000 and line.isprintable() for line in problems), "too much is report", presented)
    expect("error" in summary or wanted is ACCEPTED, "there is no summary", summary.encode())


def _no_core() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
