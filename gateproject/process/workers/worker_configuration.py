"""Worker configuration: transfers the primary's configuration to the other workers, which read no files."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from config.options import Options
from config.routes.route import Route
from foundation.crypto.signing_key import SigningKey
from gateproject.process.reload import ConfigProvenance, ConfigurationStatus


@dataclass(frozen=True, slots=True)
class WorkerConfiguration:
    """Serialized configuration: new routes are included, unchanged ones are indexes into the previous policy.

    It is a pickle, so it is only sent through a socket in a private directory, between gate's own processes: its sender can execute code.
    """

    options: bytes
    routes: Sequence[bytes | int]
    status: ConfigurationStatus
    provenance: bytes
    generated_key: bytes | None  # PEM

    @classmethod
    def serialize(
        cls, options: Options, before: Options, status: ConfigurationStatus, provenance: ConfigProvenance, key: SigningKey | None
    ) -> Self:
        """Serialize; `before` is what the worker has."""
        # Route by route, because one call would block all requests for a second.
        places = {id(route): place for place, route in enumerate(before.policy)}
        routes = [places.get(id(route)) for route in options.policy]
        return cls(
            pickle.dumps(options.model_copy(update={"policy": ()})),
            [pickle.dumps(route) if place is None else place for route, place in zip(options.policy, routes, strict=True)],
            status,
            pickle.dumps(provenance),
            None if key is None or key.is_configured else key.private_pem(),
        )

    def deserialize(self, before: Options) -> Options:
        options: Options = pickle.loads(self.options)  # noqa: S301 - see above
        policy = tuple(self._route(route, before) for route in self.routes)
        return options.model_copy(update={"policy": policy})

    def deserialize_provenance(self) -> ConfigProvenance:
        provenance: ConfigProvenance = pickle.loads(self.provenance)  # noqa: S301
        return provenance

    def _route(self, written: bytes | int, before: Options) -> Route:
        route: Route = before.policy[written] if isinstance(written, int) else pickle.loads(written)  # noqa: S301
        return route

    def key(self, algorithm: str) -> SigningKey | None:
        """Return the primary's generated signing key, or None if one is configured."""
        return None if self.generated_key is None else SigningKey.generated(self.generated_key, algorithm)
