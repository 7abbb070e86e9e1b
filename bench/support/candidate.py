"""One proxy under load: checks of its behaviour, and its samples, taken in turns with the others."""

import ssl
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import httpx

from bench.support.harness import BODY, HOST
from bench.support.wrk_load import CONNECTIONS, LEAST_SAMPLES, Failed, Sample, counting, take_sample

MORE_ROUNDS = 3  # for candidates without enough undisturbed samples

_UNVERIFIED = ssl.create_default_context()
_UNVERIFIED.check_hostname, _UNVERIFIED.verify_mode = False, ssl.CERT_NONE


@dataclass
class Contender:
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

    def must_judge(self) -> None:
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


def give_alike_cookies(contenders: Sequence[Contender]) -> None:
    """Give candidates without sign-in the cookie of the first with sign-in, so that all requests are similar."""
    cookie = next((contender.cookie for contender in contenders if contender.signs_in), "")
    for contender in contenders:
        contender.cookie = contender.cookie or cookie


def _headers(cookie: str) -> dict[str, str]:
    return {"Host": HOST, **({"Cookie": cookie} if cookie else {})}


@dataclass(frozen=True, slots=True)
class Turns:
    """Schedule of rounds. `beside` are shared processes, such as the upstream; no round starts after `until`."""

    rounds: int
    seconds: int
    until: float
    beside: Collection[int]

    def take(self, contenders: Sequence[Contender]) -> None:
        """Take one sample of each in turns, and more for those with disturbed ones."""
        for contender in contenders:
            self._load(contender, "/", CONNECTIONS, [])  # warm-up
        for number in range(self.rounds + MORE_ROUNDS):
            for contender in contenders:
                lacks = number < self.rounds or len(counting(contender.samples)[0]) < self.rounds
                if lacks and (time.monotonic() < self.until or number < LEAST_SAMPLES):
                    self._load(contender, "/", CONNECTIONS, contender.samples)

    def take_downloads(self, contenders: Sequence[Contender], path: str, at_once: int, rounds: int) -> None:
        for _ in range(rounds):
            for contender in contenders:
                self._load(contender, path, at_once, contender.downloads)

    def _load(self, contender: Contender, path: str, at_once: int, samples: list[Sample]) -> None:
        contender.must_judge()
        arguments = [f"-c{at_once}", *contender.wrk(path)]
        try:
            samples.append(take_sample(contender.process, self.beside, contender.cores, arguments, self.seconds))
        except Failed as failure:
            print(f"{contender.name}: a sample is left out, because not every request succeeded\n{failure}", file=sys.stderr)
        contender.must_judge()
