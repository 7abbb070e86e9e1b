"""Envoy's external authorization (envoy.service.auth.v3): one method for our own proxies and for anybody's Envoy."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import grpc
from envoy.config.core.v3 import base_pb2
from envoy.service.auth.v3 import external_auth_pb2 as pb
from envoy.type.v3 import http_status_pb2
from google.rpc import code_pb2, status_pb2

from authorize.client import Attestation, Authorizer, Check
from authorize.identity_headers import ASSERTION
from authorize.identity_headers import Headers as IdentityHeaders
from authorize.policy.canonical import require_plain
from authorize.policy.criteria import Step
from authorize.policy.decision import Outcome
from authorize.policy.identity import Identity
from authorize.policy.request import AccessRequest
from authorize.recorder import Recorder
from authorize.rpc import attributes
from databroker.replica import Replica
from gateproject.bounded import remembered, together
from gateproject.errors import BadRequest, BrokerError, GateError
from gateproject.rpc.shared_secret import TOKEN

SERVICE = "envoy.service.auth.v3.Authorization"
CHECK = f"/{SERVICE}/Check"
# How long a decision waits for records that the data plane has seen already.
PATIENCE = 2.0
LONGEST_REMEMBERED = 4096  # bytes of all that an answer says
_APPEND = base_pb2.HeaderValueOption.HeaderAppendAction.APPEND_IF_EXISTS_OR_ADD
_OVERWRITE = base_pb2.HeaderValueOption.HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD
_STATUS = {Outcome.SIGN_IN: 401, Outcome.STEP_UP: 401, Outcome.FORBIDDEN: 403, Outcome.NO_ROUTE: 404, Outcome.CERTIFICATE: 495}

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as somebody's Envoy told it."""

    request: AccessRequest
    headers: Headers
    cookies: Sequence[bytes]
    client_address: str
    request_id: str
    started: float  # of a monotonic clock


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client is told instead of being let through."""

    status: int
    headers: Headers
    body: bytes


class EnvoyWords:
    """What only the proxy knows how to say; the roof brings it (`proxy/envoy_words.py`)."""

    async def refuse(self, asked: Asked, check: Check) -> Answer:
        raise NotImplementedError

    async def explain(self, asked: Asked, error: GateError) -> Answer:
        raise NotImplementedError

    async def redirect(self, asked: Asked, check: Check) -> Answer:
        """For a route that only redirects."""
        raise NotImplementedError

    def require_carriable(self, asked: Asked, check: Check) -> None:
        """BadRequest for what no Envoy may carry to an application, whatever the decision says."""
        raise NotImplementedError

    def story(self, asked: Asked) -> "AskedStory":
        raise NotImplementedError

    def tell(self, story: "AskedStory", status: int, problem: str) -> None:
        """For the logs; `status` is 200 where the Envoy may carry it."""
        raise NotImplementedError

    def cleaned(self, asked: Asked, check: Check) -> tuple[Mapping[bytes, bytes], Sequence[bytes]]:
        """(headers that the upstream gets instead of the client's, names of those that it must not get)."""
        raise NotImplementedError


class AskedStory(Protocol):
    """What the logs will tell of one question."""

    async def judge(self) -> Check: ...


class ExtAuthz:
    """`authorize` and `words` are asked for at each call, because a reload replaces them."""

    def __init__(
        self,
        authorize: Callable[[], Authorizer],
        words: Callable[[], EnvoyWords],
        replica: Replica,
        recorder: Recorder,
        *,
        patience: float = PATIENCE,
    ):
        self._authorize = authorize
        self._words = words
        self._replica = replica
        self._recorder = recorder
        self._patience = patience

    def methods(self) -> dict[str, grpc.RpcMethodHandler]:
        return {"Check": grpc.unary_unary_rpc_method_handler(self.check, pb.CheckRequest.FromString)}

    async def check(self, request: pb.CheckRequest, context: grpc.aio.ServicerContext) -> bytes:
        """A CheckResponse as it is sent, because most answers have been given before (`_let_through`)."""
        if any(name == TOKEN for name, _ in context.invocation_metadata() or ()):
            return (await self._for_our_proxy(request)).SerializeToString()
        return await self._for_an_envoy(request)

    async def _for_our_proxy(self, told: pb.CheckRequest) -> pb.CheckResponse:
        """Facts, for a proxy that finds the words itself; errors are gRPC's."""
        authorize, extensions = self._authorize(), told.attributes.context_extensions
        # A proxy that knows of a newer change must not be answered from older records: it would let a stream live on.
        await self._replica.catch_up(extensions.get(attributes.SEEN, ""), self._patience)
        request, cookies = attributes.from_check_request(told, authorize.default_ports)
        match extensions.get(attributes.PURPOSE):
            case attributes.IDENTIFY:
                return _facts(Attestation(await authorize.identify(cookies, request.host_port)))
            case attributes.ATTEST:
                return _facts(await authorize.attest(request, cookies))
        if extensions.get(attributes.PURPOSE) == attributes.CREDENTIALS:
            check = await authorize.check(request, cookies)
            _require_same_route(check, extensions.get(attributes.ROUTE, ""))
            return _ok(await authorize.credentials_for(check, request, cookies))
        check = await self._recorder.check(authorize, request, cookies, told.attributes.request.http.id)
        _require_same_route(check, extensions.get(attributes.ROUTE, ""))
        return _decided(check)

    async def _for_an_envoy(self, told: pb.CheckRequest) -> bytes:
        authorize, words, http = self._authorize(), self._words(), told.attributes.request.http
        asked, story, problem = None, None, ""
        try:
            request, cookies = attributes.from_check_request(told, authorize.default_ports)
            asked = _asked(told, request, request.headers, cookies)
            # An Envoy forwards what it told us, where our own data plane forwards what was judged.
            require_plain(attributes.raw(http.path.partition("?")[0]), request.path)
            story = words.story(asked)
            check = await story.judge()
            _require_same_route(check, told.attributes.context_extensions.get(attributes.ROUTE, ""))
            _require_nothing_of_ours(check, authorize)
            words.require_carriable(asked, check)
            refusal = await self._refusal(words, asked, check)
            answer = _denied(refusal) if refusal is not None else _allowed(check, *words.cleaned(asked, check))
        except GateError as error:
            asked = asked or _asked(told, _unread(told), attributes.headers_of(http))
            refusal, problem = await words.explain(asked, error), error.in_full
            answer = _denied(refusal)
        words.tell(story or words.story(asked), refusal.status if refusal is not None else 200, problem)
        return answer

    async def _refusal(self, words: EnvoyWords, asked: Asked, check: Check) -> Answer | None:
        if not check.decision.is_allowed:
            return await words.refuse(asked, check)
        if check.decision.route is not None and check.decision.route.route.redirect is not None:
            return await words.redirect(asked, check)
        return None


def _unread(told: pb.CheckRequest) -> AccessRequest:
    """What is known of a request that has no single reading."""
    return AccessRequest(method=told.attributes.request.http.method, host="", port=None, path="/")


def _asked(told: pb.CheckRequest, request: AccessRequest, headers: Headers, cookies: Sequence[bytes] = ()) -> Asked:
    address = told.attributes.source.address.socket_address.address
    return Asked(request, headers, cookies, address, told.attributes.request.http.id, time.monotonic())


class CarriedByGateAlone(BadRequest):
    status = 403


def _require_same_route(check: Check, route_id: str) -> None:
    """The data plane forwards by its own match, so a decision on any other route would be a decision on nothing."""
    ours = check.decision.route.id if check.decision.route is not None else ""
    if route_id and route_id != ours:
        raise BrokerError("the data plane's route is not the one that authorize found: are both configured alike?")


def _require_nothing_of_ours(check: Check, authorize: Authorizer) -> None:
    """Credentials of ours are for our own proxies; without them the request would be another, so nobody else may carry it."""
    if check.decision.route is not None and authorize.shows_credentials(check.decision.route):
        raise CarriedByGateAlone("the upstream wants credentials of gate, which must carry the request itself")


def _ok(headers: Headers) -> pb.CheckResponse:
    answer = pb.CheckResponse(status=status_pb2.Status(code=code_pb2.OK))
    for name, value in headers:
        _add(answer.ok_response.headers, name, value, append=name == b"impersonate-group")
    return answer


def _decided(check: Check) -> pb.CheckResponse:
    decision = check.decision
    answer = pb.CheckResponse()
    if decision.is_allowed:
        answer.status.code = code_pb2.OK
        for name, value in check.identity_headers:
            _add(answer.ok_response.headers, name, value)
    else:
        answer.status.code = code_pb2.PERMISSION_DENIED
        answer.denied_response.status.CopyFrom(_http_status(_STATUS[decision.outcome]))
    trace = [{"rule": step.rule, "value": step.value, "reason": step.reason.name} for step in _told(decision.trace)]
    told = {"trace": trace, "identity": _identity(check.identity), "challenge": check.challenge, "refused_token": check.refused_token}
    answer.dynamic_metadata.update({**_outcome(check), **told})
    return answer


def _told(trace: Sequence[Step]) -> Sequence[Step]:
    """What the proxy may tell a refused person from, and the last, which decided."""
    return [step for step in trace if step is trace[-1] or step.criterion is None or step.criterion.is_told]


def _facts(attestation: Attestation) -> pb.CheckResponse:
    answer = pb.CheckResponse(status=status_pb2.Status(code=code_pb2.OK))
    if attestation.assertion:
        _add(answer.ok_response.headers, ASSERTION, attestation.assertion.encode("ascii"))
    answer.dynamic_metadata.update({"identity": _identity(attestation.identity)})
    return answer


def _outcome(check: Check) -> dict[str, Any]:
    decision = check.decision
    return {"outcome": decision.outcome.name, "route": decision.route.id if decision.route is not None else ""}


def _identity(identity: Identity | None) -> dict[str, Any] | None:
    """Who this is, and until when; no claims and no groups."""
    if identity is None:
        return None
    names = ("session_id", "user_id", "subject", "provider", "email", "name")
    return {name: getattr(identity, name) for name in names} | {"expires": identity.expires, "issued": identity.issued}


def _allowed(check: Check, replaced: Mapping[bytes, bytes], removed: Sequence[bytes]) -> bytes:
    route = check.decision.route
    said = LetThrough(
        check.decision.outcome, route.id if route is not None else "", check.identity_headers, tuple(replaced.items()), tuple(removed)
    )
    return _let_through(said)


class LetThrough(NamedTuple):
    """All that an answer which lets a request through is made of, and nothing else."""

    outcome: Outcome
    route_id: str
    identity_headers: IdentityHeaders
    replaced: tuple[tuple[bytes, bytes], ...]
    removed: tuple[bytes, ...]


# Clients choose what is replaced and removed, and providers what identity headers hold.
@remembered(2048, longest=LONGEST_REMEMBERED, size=lambda said: together(said.identity_headers, said.replaced, said.removed))
def _let_through(said: LetThrough) -> bytes:
    """The requests of one browser to one route are answered alike; each is judged, and then its answer need not be written anew."""
    answer = _ok((*said.identity_headers, *said.replaced))
    answer.ok_response.headers_to_remove.extend([name.decode("latin-1") for name in said.removed])
    answer.dynamic_metadata.update({"outcome": said.outcome.name, "route": said.route_id})
    return answer.SerializeToString()


def _denied(answer: Answer) -> bytes:
    denied = pb.CheckResponse(status=status_pb2.Status(code=code_pb2.PERMISSION_DENIED))
    denied.denied_response.status.CopyFrom(_http_status(answer.status))
    denied.denied_response.body = answer.body.decode("utf-8", "replace")
    for name, value in answer.headers:
        if name != b"content-length":  # Envoy counts the body itself
            _add(denied.denied_response.headers, name, value, append=name == b"set-cookie")
    return denied.SerializeToString()


def _add(headers: Any, name: bytes, value: bytes, *, append: bool = False) -> None:
    option = headers.add()
    option.append_action = _APPEND if append else _OVERWRITE
    option.header.key, option.header.value = name.decode("latin-1"), value.decode("latin-1")


def _http_status(status: int) -> http_status_pb2.HttpStatus:
    return http_status_pb2.HttpStatus(code=status)
