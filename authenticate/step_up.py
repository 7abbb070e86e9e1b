"""Step-up: what a route asks of a sign-in (`acr_values`, `max_age`), and the check of what the provider says.  The route judges once
more.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from databroker.records import auth_time_in
from foundation.errors import BadRequest
from foundation.web.message import Message

WEAK = Message("This application requires a stronger sign-in method.")
UNTOLD = Message("Your identity provider did not report when you last signed in, which this application requires.")
OLD = Message("Your last sign-in is too old for this application.")
UNMET = "unmet_authentication_requirements"  # OpenID Connect Core Unmet Authentication Requirements 1.0


@dataclass(frozen=True, slots=True)
class StepUpRequest:
    """Requirements of a sign-in; `max_age` is in seconds; `is_pressed`: the provider must ask the person again, whatever it remembers of
    them.
    """

    acr_values: tuple[str, ...] = ()
    max_age: int | None = None
    is_pressed: bool = False

    def __bool__(self) -> bool:
        return bool(self.acr_values) or self.max_age is not None

    @classmethod
    def from_url(cls, params: Mapping[str, str]) -> Self:
        """The requirements in a signed URL of ours."""
        max_age = params.get("gate_max_age", "")
        if max_age and not (max_age.isascii() and max_age.isdecimal()):
            raise BadRequest(Message("the sign-in link has an invalid max_age"))
        return cls(tuple(params.get("gate_acr_values", "").split()), int(max_age) if max_age else None)

    def to_url(self) -> dict[str, str]:
        asked = {"gate_acr_values": " ".join(self.acr_values), "gate_max_age": "" if self.max_age is None else str(self.max_age)}
        return {name: value for name, value in asked.items() if value}

    @classmethod
    def from_attempt(cls, attempt: Mapping[str, Any]) -> Self:
        asked = attempt.get("asked", {})
        return cls(tuple(asked.get("acr", ())), asked.get("age"), bool(asked.get("pressed")))

    def to_attempt(self) -> dict[str, Any]:
        asked = {"acr": list(self.acr_values), "age": self.max_age, "pressed": self.is_pressed}
        return {"asked": {name: value for name, value in asked.items() if value}} if self else {}

    def request_params(self, usual: Mapping[str, str], pressing: str, *, takes_claims: bool = False) -> dict[str, str]:
        """Parameters of the authorization request (OpenID Connect Core 3.1.2.1, 5.5).

        `usual` is what is asked for anyway, `pressing` the word by which this provider is told to ask again; `takes_claims`: it looks
        at the parameter `claims`.
        """
        params = {"acr_values": " ".join(self.acr_values)} if self.acr_values else {}
        if self.max_age is not None:
            params["max_age"] = str(self.max_age)
            if takes_claims:
                params["claims"] = _with_auth_time(usual.get("claims", ""))
        if self.is_pressed:
            params["prompt"] = " ".join(dict.fromkeys([*(word for word in usual.get("prompt", "").split() if word != "none"), pressing]))
        return params

    def shortfall(self, claims: Mapping[str, Any], issued: float, now: float) -> str:
        """The reason why a sign-in with these claims that began at `issued` falls short; "" where it does not."""
        if self.acr_values and claims.get("acr") not in self.acr_values:
            return WEAK
        if self.max_age is None:
            return ""
        authenticated = auth_time_in(claims, issued)
        if authenticated <= 0.0:
            return UNTOLD
        return OLD if now - authenticated > self.max_age else ""


def _with_auth_time(usual: str) -> str:
    """The parameter `claims` with `auth_time`; `max_age` alone must bring that (Core 2), but not everybody knows."""
    try:
        asked = json.loads(usual or "{}")
        return json.dumps({**asked, "id_token": {**(asked.get("id_token") or {}), "auth_time": {"essential": True}}}, separators=(",", ":"))
    except (ValueError, TypeError, AttributeError):
        return usual  # the operator's own, whatever it is
