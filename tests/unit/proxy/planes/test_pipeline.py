"""authorize is called once for a request, and receives the data to record about it."""

from pathlib import Path

import pytest

from authorize.decision_log.decision_log import DecisionLog, DecisionLogEntry
from authorize.service import AuthorizeService
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.signing_key import SigningKey
from foundation.errors import BadRequest
from foundation.telemetry import metrics
from foundation.telemetry.metrics import registry
from proxy.incoming_request import IncomingRequest
from proxy.observe.request_recorder import RequestContext
from proxy.planes.open_streams import OpenStreams
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.planes.shared_resources import SharedResources
from tests.support.asgi import incoming_from
from tests.support.options import make_options
from tests.support.signed_in import sign_in
from tests.unit.authorize.builders import NOW

APP = {"from": "https://app.example.com", "to": "http://up"}
POLICY = [
    {**APP, "prefix": "/admin", "allow_any_authenticated_user": True},
    {**APP, "name": "judged", "allow_public_unauthenticated_access": True, "policy": [{"mode": "shadow", "deny": {"http_path": "/never"}}]},
]


class Place:
    def __init__(self, directory: Path):
        self.options, self.broker, self.streams = make_options(directory, policy=POLICY), MemoryStore(), OpenStreams()
        self.recorded: list[DecisionLogEntry] = []
        decisions = DecisionLog(lambda entries: self.recorded.extend(entry for entry, _ in entries), chance=lambda: 1.0)
        decisions.configure(self.options, "c0ffee")
        self.decisions = decisions
        authorize = AuthorizeService(self.options, Replica(self.broker), SigningKey.from_options(self.options))
        self.pipeline = AuthorizationPipeline(self.options, authorize, SharedResources(decisions, streams=self.streams), lambda: NOW)


def in_shadow() -> float:
    return registry.get_sample_value("gate_shadow_decisions_total", {"route": "judged", "outcome": "allowed", "enforced": "allowed"}) or 0.0


async def test_decision_is_one_value(tmp_path: Path) -> None:
    place = Place(tmp_path)
    ann = await sign_in(place.broker, place.options)
    place.streams.on_policy_change()
    incoming = incoming_from("https://app.example.com/admin/", headers={"cookie": ann.cookie("app.example.com")})
    context = RequestContext(incoming)
    decision = await place.pipeline.authorize(context)
    assert (decision.incoming, decision.now, decision.access_change_count, decision.session_id) == (incoming, NOW, 1, ann.session.id)
    assert decision.sources is not None
    assert context.decision is decision


async def test_enforcement_point_without_own_recording_records_no_shadow_result(tmp_path: Path) -> None:
    place, before = Place(tmp_path), in_shadow()
    context = RequestContext(incoming_from("https://app.example.com/"))
    decision = await place.pipeline.authorize_only(context)
    assert (decision.shadow_outcome, in_shadow() - before) == (None, 0)
    decision = await place.pipeline.record_decision(decision, context)
    assert decision.shadow_outcome is not None
    assert (context.decision, in_shadow() - before) == (decision, 1)


async def test_failed_evaluations_are_recorded_and_skipped_ones_are_not(tmp_path: Path) -> None:
    place = Place(tmp_path)
    odd: IncomingRequest = incoming_from("https://app.example.com/;x/admin/x")
    for incoming, is_evaluated in ((odd, True), (incoming_from("https://app.example.com/"), False)):
        context = RequestContext(incoming)
        if is_evaluated:
            with pytest.raises(BadRequest):
                await place.pipeline.authorize(context)
        place.pipeline.recorder.record(context)
    await place.decisions.flush()
    assert [(each.request.path, each.failure) for each in place.recorded] == [("/;x/admin/x", "bad request")]


async def test_reevaluated_stream_is_no_new_request(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert (await place.pipeline.reauthorize(incoming_from("https://app.example.com/"))).authorization.decision.is_allowed
    await place.decisions.flush()
    assert place.recorded == []


def decisions() -> dict[tuple[str, str], float]:
    """Return the counts that are not 0, by outcome and reason."""
    (metric,) = metrics.decisions.collect()
    samples = [sample for sample in metric.samples if sample.name.endswith("_total") and sample.value]
    return {(sample.labels["outcome"], sample.labels["reason"]): sample.value for sample in samples}


@pytest.mark.parametrize(
    ("url", "is_signed_in", "labels"),
    [
        ("https://app.example.com/", False, ("allowed", "public")),
        ("https://app.example.com/admin/", True, ("allowed", "signed_in")),
        ("https://app.example.com/admin/", False, ("sign in", "not_signed_in")),
        ("https://unknown.example.com/", True, ("no route", "")),
    ],
)
async def test_a_decision_on_a_request_is_counted_once_and_a_re_evaluation_is_not(
    tmp_path: Path, url: str, is_signed_in: bool, labels: tuple[str, str]
) -> None:
    place = Place(tmp_path)
    ann = await sign_in(place.broker, place.options)
    incoming = incoming_from(url, headers={"cookie": ann.cookie("app.example.com")} if is_signed_in else {})
    before = decisions()
    await place.pipeline.reauthorize(incoming)
    await place.pipeline.authorize_only(RequestContext(incoming))
    assert decisions() == before
    await place.pipeline.authorize(RequestContext(incoming))
    assert decisions() == {**before, labels: before.get(labels, 0) + 1}
