"""Step-up authentication: a route's requirements for a sign-in (`acr_values`, `max_age`), and the check of the returned claims.

The route's policy evaluates the requirements again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from databroker.records import auth_time_in
from foundation.errors import BadRequest
from foundation.web.message import Message

ACR_NOT_MET = Message("This application requires a stronger sign-in method.")
AUTH_TIME_MISSING = Message("Your identity provider did not report when you last signed in, which this application requires.")
MAX_AGE_EXCEEDED = Message("Your last sign-in is too old for this application.")
UNMET_REQUIREMENTS_ERROR = "unmet_authentication_requirements"  # OpenID Connect Core Unmet Authentication Requirements 1.0


@dataclass(frozen=True, slots=True)
class StepUpRequest:
    """Requirements for a sign-in. `max_age` is in seconds.

    With `force_reauthentication` the provider must authenticate the user again, even if it has a session.
    """

    acr_values: tuple[str, ...] = ()
    max_age: int | None = None
    force_reauthentication: bool = False

    def __bool__(self) -> bool:
        return bool(self.acr_values) or self.max_age is not None

    @classmethod
    def from_url(cls, params: Mapping[str, str]) -> Self:
        """Return the requirements in a signed URL of gate."""
        max_age = params.get("gate_max_age", "")
        if max_age and not (max_age.isascii() and max_age.isdecimal()):
            raise BadRequest(Message("the sign-in link has an invalid max_age"))
        return cls(tuple(params.get("gate_acr_values", "").split()), int(max_age) if max_age else None)

    def to_url(self) -> dict[str, str]:
        params = {"gate_acr_values": " ".join(self.acr_values), "gate_max_age": "" if self.max_age is None else str(self.max_age)}
        return {name: value for name, value in params.items() if value}

    @classmethod
    def from_attempt(cls, attempt: Mapping[str, Any]) -> Self:
        requirements = attempt.get("step_up", {})
        return cls(tuple(requirements.get("acr_values", ())), requirements.get("max_age"), bool(requirements.get("force_reauthentication")))

    def to_attempt(self) -> dict[str, Any]:
        requirements = {
            "acr_values": list(self.acr_values),
            "max_age": self.max_age,
            "force_reauthentication": self.force_reauthentication,
        }
        return {"step_up": {name: value for name, value in requirements.items() if value}} if self else {}

    def request_params(
        self, default_params: Mapping[str, str], reauthentication_prompt: str, *, supports_claims_parameter: bool = False
    ) -> dict[str, str]:
        """Return the parameters of the authorization request (OpenID Connect Core 3.1.2.1, 5.5).

        `default_params` are the parameters without step-up, `reauthentication_prompt` is the provider's value of `prompt` for a new
        authentication.
        """
        params = {"acr_values": " ".join(self.acr_values)} if self.acr_values else {}
        if self.max_age is not None:
            params["max_age"] = str(self.max_age)
            if supports_claims_parameter:
                params["claims"] = _with_auth_time(default_params.get("claims", ""))
        if self.force_reauthentication:
            params["prompt"] = " ".join(
                dict.fromkeys([*(word for word in default_params.get("prompt", "").split() if word != "none"), reauthentication_prompt])
            )
        return params

    def unmet_requirement(self, claims: Mapping[str, Any], issued_at: float, now: float) -> str:
        """Return which requirement a sign-in with these claims, started at `issued_at`, does not meet; "" if it meets all."""
        if self.acr_values and claims.get("acr") not in self.acr_values:
            return ACR_NOT_MET
        if self.max_age is None:
            return ""
        authenticated = auth_time_in(claims, issued_at)
        if authenticated <= 0.0:
            return AUTH_TIME_MISSING
        return MAX_AGE_EXCEEDED if now - authenticated > self.max_age else ""


def _with_auth_time(configured: str) -> str:
    """Return the parameter `claims` with `auth_time`. `max_age` alone requires it (Core 2), but not every provider complies."""
    try:
        claims = json.loads(configured or "{}")
        return json.dumps(
            {**claims, "id_token": {**(claims.get("id_token") or {}), "auth_time": {"essential": True}}}, separators=(",", ":")
        )
    except (ValueError, TypeError, AttributeError):
        return configured  # as configured by the operator
