"""External authorization (envoy.service.auth.v3): responses to an external Envoy, from the same verdicts as the embedded data plane."""

from authorize.ext_authz_types import CheckResponder, DeniedResponse, EnvoyRequest, OkResponse, require_same_route
from config.options import Options
from foundation.bounded_cache import bounded_lru_cache, total_length
from foundation.errors import GateError
from foundation.web.asgi_types import Header
from foundation.web.brand import SiteInfo
from proxy.incoming_request import IncomingRequest, new_request_id
from proxy.observe.request_recorder import RequestContext
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.responses.renderer import CapturedResponse
from proxy.responses.site_context import build_site_info
from proxy.rewriting.request_headers import RequestHeaderRules
from proxy.rewriting.reserved_headers import fold, is_reserved_header
from proxy.verdict import Deny, Enforcer, Forward, Redirect, SignIn
from proxy.verdict_builder import deny_for_error

# An Envoy with `use_remote_address` overwrites these headers of the client, or appends the client's address to them.
ENVOY_MANAGED_HEADERS = frozenset((b"x-forwarded-for", b"x-forwarded-proto", b"x-request-id"))


class ExtAuthzResponder(CheckResponder):
    def __init__(self, options: Options, pipeline: AuthorizationPipeline):
        self._pipeline = pipeline
        self._site = build_site_info(options)
        self._headers = RequestHeaderRules.for_delegation(options)
        self._identity_header_names = pipeline.authorizer.routes.identity_header_names

    async def respond(self, request: EnvoyRequest) -> OkResponse | DeniedResponse:
        pipeline, context = self._pipeline, RequestContext(_incoming(request, self._site))
        try:
            verdict = await self._verdict(request, context)
            if isinstance(verdict, OkResponse):
                context.status = 200
                return verdict
            captured = CapturedResponse()
            context.record_response(verdict, await pipeline.renderer.send(context.incoming, verdict, captured, pipeline.clock()))
            return DeniedResponse(captured.status, captured.headers, captured.body)
        finally:
            pipeline.recorder.record(context)

    async def _verdict(self, request: EnvoyRequest, context: RequestContext) -> OkResponse | SignIn | Deny | Redirect:
        try:
            if request.parse_error is not None:
                raise request.parse_error
            decision = await self._pipeline.authorize(context)
            require_same_route(decision.authorization, request.route_id)
        except GateError as error:
            return deny_for_error(error, Enforcer.EXT_AUTHZ)
        verdict = self._pipeline.verdicts.build(decision, Enforcer.EXT_AUTHZ)
        if not isinstance(verdict, Forward):
            return verdict
        self._pipeline.recorder.report_session_activity(decision)
        return OkResponse(
            decision.authorization.decision.outcome,
            verdict.compiled_route.id,
            verdict.identity_headers,
            *self._header_mutations(request, verdict),
        )

    def _header_mutations(self, request: EnvoyRequest, verdict: Forward) -> tuple[tuple[Header, ...], tuple[bytes, ...]]:
        """Return (headers that replace the client's, names of headers to remove)."""
        names, reserved = _classify_names(tuple([name for name, _ in request.headers]))
        identity_names = {name for name, _ in verdict.identity_headers}
        route_identity_names = {fold(name) for name in self._identity_header_names.headers_for(verdict.compiled_route.route)}
        untrusted = {*reserved, *(name for name in names if fold(name) in route_identity_names)}
        removed = [name for name in untrusted if name not in identity_names]
        replaced: list[Header] = []
        if b"x-forwarded-for" in names:
            # Because the client may have written the addresses before the trusted one.
            replaced.append((b"x-forwarded-for", request.client_address.encode()))
        if b"cookie" in names or b"authorization" in names:
            for name, remaining in self._headers.remaining_credentials(request.headers, verdict.withheld):
                if name in identity_names:
                    continue
                if remaining:
                    replaced.append((name, remaining))
                elif name in names:
                    removed.append(name)
        return tuple(replaced), tuple(sorted(removed))


@bounded_lru_cache(256, max_key_length=2048, size=total_length)  # because browsers send the same names repeatedly
def _classify_names(sent: tuple[bytes, ...]) -> tuple[frozenset[bytes], tuple[bytes, ...]]:
    """Return the names of a request's headers, and those of them that only gate may send upstream."""
    names = frozenset(sent)
    return names, tuple(name for name in names if name not in ENVOY_MANAGED_HEADERS and is_reserved_header(fold(name)))


def _incoming(request: EnvoyRequest, site: SiteInfo) -> IncomingRequest:
    scope = {
        "method": request.request.method,
        "headers": list(request.headers),
        "client": (request.client_address, 0) if request.client_address else None,
    }
    request_id = request.request_id or new_request_id()
    fields = (scope, request.request, dict(request.headers), list(request.cookies), request_id, request.started_at)
    return IncomingRequest(*fields, site=site, client_address=request.client_address)  # as determined by the Envoy
