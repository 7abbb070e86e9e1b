"""Load balancing of a route: `lb_policy` and the settings of each policy."""

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from config.fields.basic_types import Number
from config.fields.field_type import choice_type, integer_type
from config.validation import Finding, Rule, Settings

if TYPE_CHECKING:
    from config.routes.route import Route

ROUND_ROBIN, LEAST_REQUEST, RING_HASH, RANDOM, MAGLEV = POLICIES = ("ROUND_ROBIN", "LEAST_REQUEST", "RING_HASH", "RANDOM", "MAGLEV")
MAX_RING_SIZE = 8 * 1024 * 1024  # Envoy's
MAX_TABLE_SIZE = 5_000_011  # Envoy's
_CONFIGS = {"least_request_lb_config": LEAST_REQUEST, "ring_hash_lb_config": RING_HASH, "maglev_lb_config": MAGLEV}


def _check_ring_sizes(settings: "RingHashSettings") -> Iterator[Finding]:
    if settings.minimum_ring_size > settings.maximum_ring_size:
        yield ("minimum_ring_size",), "is more than maximum_ring_size"


def _check_table_size(settings: "MaglevSettings") -> Iterator[Finding]:
    size = settings.table_size
    if any(size % divisor == 0 for divisor in range(2, int(size**0.5) + 1)):
        yield ("table_size",), "must be a prime number, as 65537 is"


class ActiveRequestBias(Settings):
    """Weight of active requests, if upstreams have weights."""

    default_value: Number = Field(
        Decimal("1"), description="Exponent: an upstream counts `weight / (active requests + 1) ^ default_value`.", examples=[1.0]
    )


class LeastRequestSettings(Settings):
    """Settings of LEAST_REQUEST."""

    choice_count: Annotated[int, integer_type(2, 1024)] = Field(
        2, description="Number of random upstreams of which the least busy one is chosen, with equal weights.", examples=[3]
    )
    active_request_bias: ActiveRequestBias = Field(
        default_factory=lambda: ActiveRequestBias.model_validate({}),
        description="Influence of active requests, with different weights.",
        examples=[{"default_value": 1.0}],
    )


class RingHashSettings(Settings):
    """Settings of RING_HASH."""

    RULES: ClassVar[tuple[Rule, ...]] = (_check_ring_sizes,)

    minimum_ring_size: Annotated[int, integer_type(1, MAX_RING_SIZE)] = Field(
        1024, description="Minimum number of points on the ring. More points distribute more evenly.", examples=[1024]
    )
    maximum_ring_size: Annotated[int, integer_type(1, MAX_RING_SIZE)] = Field(
        MAX_RING_SIZE, description="Maximum number of points on the ring.", examples=[65536]
    )


class MaglevSettings(Settings):
    """Settings of MAGLEV."""

    RULES: ClassVar[tuple[Rule, ...]] = (_check_table_size,)

    table_size: Annotated[int, integer_type(3, MAX_TABLE_SIZE)] = Field(
        65537, description="Size of the lookup table: a prime number, at least 100 times the number of upstreams.", examples=[65537]
    )


def check_lb_settings(route: "Route") -> Iterator[Finding]:
    for key, policy in _CONFIGS.items():
        if getattr(route, key) is not None and route.lb_policy != policy:
            yield (key,), f"has no effect without lb_policy: {policy}"
    if route.maglev_lb_config is not None and len(route.to) > route.maglev_lb_config.table_size:
        yield ("maglev_lb_config",), "must have at least as many entries as `to` has upstreams"


class LoadBalancingSettings(Settings):
    """Route keys of load balancing."""

    lb_policy: Annotated[str, choice_type(*POLICIES)] = Field(
        ROUND_ROBIN, description="Load balancing policy for several `to` URLs. All policies use the weights.", examples=["LEAST_REQUEST"]
    )
    least_request_lb_config: LeastRequestSettings | None = Field(
        None, description="Options of `LEAST_REQUEST`.", examples=[{"choice_count": 2}]
    )
    ring_hash_lb_config: RingHashSettings | None = Field(
        None, description="Options of `RING_HASH`.", examples=[{"minimum_ring_size": 1024}]
    )
    maglev_lb_config: MaglevSettings | None = Field(None, description="Options of `MAGLEV`.", examples=[{"table_size": 65537}])
