"""One proxy under load: checks of its behaviour, and its samples, taken in turns with the others."""

import ssl
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import httpx

from bench.support.harness import BODY, HOST
from bench.support.wrk_load import CONNECTIONS, MIN_SAMPLES, Failed, Sample, take_sample, valid_samples

MORE_ROUNDS = 3  # for candidates without enough undisturbed samples

_UNVERIFIED = ssl.create_default_context()
_UNVERIFIED.check_hostname, _UNVERIFIED.verify_mode = False, ssl.CERT_NONE


@dataclass
class Candidate:
    name: str
    process: int
    port: int
    scheme: str
    cores: frozenset[int]  # its cookie header, and that of the load
    cookie: str = ""
    signs_in: bool = True  # without sign-in it receives another's cookie, so that all requests are similar and accepted
    samples: list[Sample] = field(default_factory=list)
    downloads: list[Sample] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def wrk(self, path: str) -> list[str]:
        return [*(f"-H{name}: {value}" for name, value in _headers(self.cookie).items()), self.url + path]

    def assert_authorizes(self) -> None:
        """Check responses individually, because wrk counts a fast redirect to the sign-in page as success."""
        status, body = self._answer(self.cookie)
        if (status, body) != (200, BODY.encode()):
            sys.exit(f"{self.name}: answered {status} with {len(body)} bytes, not the upstream's page")
        if self.signs_in and not 300 <= (status := self._answer("")[0]) < 400:
            sys.exit(f"{self.name}: answered {status} to who is not signed in")

    def _answer(self, cookie: str) -> tuple[int, bytes]:
        # The address is dialled instead of the name of the certificate, which is not verified here.
        headers = {**_headers(cookie), "Accept": "text/html", "Sec-Fetch-Mode": "navigate"}
        response = httpx.get(self.url + "/", headers=headers, trust_env=False, verify=_UNVERIFIED)
        return response.status_code, response.content


def equalize_cookies(candidates: Sequence[Candidate]) -> None:
    """Give candidates without sign-in the cookie of the first with sign-in, so that all requests are similar."""
    cookie = next((candidate.cookie for candidate in candidates if candidate.signs_in), "")
    for candidate in candidates:
        candidate.cookie = candidate.cookie or cookie


def _headers(cookie: str) -> dict[str, str]:
    return {"Host": HOST, **({"Cookie": cookie} if cookie else {})}


@dataclass(frozen=True, slots=True)
class Turns:
    """Schedule of rounds. `shared_processes` are shared processes, such as the upstream; no round starts after `until`."""

    rounds: int
    seconds: int
    until: float
    shared_processes: Collection[int]

    def take(self, candidates: Sequence[Candidate]) -> None:
        """Take one sample of each in turns, and more for those with disturbed ones."""
        for candidate in candidates:
            self._load(candidate, "/", CONNECTIONS, [])  # warm-up
        for number in range(self.rounds + MORE_ROUNDS):
            for candidate in candidates:
                lacks = number < self.rounds or len(valid_samples(candidate.samples)[0]) < self.rounds
                if lacks and (time.monotonic() < self.until or number < MIN_SAMPLES):
                    self._load(candidate, "/", CONNECTIONS, candidate.samples)

    def take_downloads(self, candidates: Sequence[Candidate], path: str, at_once: int, rounds: int) -> None:
        for _ in range(rounds):
            for candidate in candidates:
                self._load(candidate, path, at_once, candidate.downloads)

    def _load(self, candidate: Candidate, path: str, at_once: int, samples: list[Sample]) -> None:
        candidate.assert_authorizes()
        arguments = [f"-c{at_once}", *candidate.wrk(path)]
        try:
            samples.append(take_sample(candidate.process, self.shared_processes, candidate.cores, arguments, self.seconds))
        except Failed as failure:
            print(f"{candidate.name}: a sample is left out, because not every request succeeded\n{failure}", file=sys.stderr)
        candidate.assert_authorizes()
