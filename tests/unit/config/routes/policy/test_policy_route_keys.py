"""Keys of a route as blocks of the policy language: which there are, under which name, and in which order."""

from config.routes.policy.policy_language import Combination, Comparison, iter_comparisons
from tests.unit.authorize.builders import make_route


def test_each_key_is_a_block_of_its_name_and_those_without_sign_in_come_first() -> None:
    route = make_route(
        max_age="1h",
        allowed_groups=["g"],
        allowed_users=["a@b.org", "c@b.org"],
        cors_allow_preflight=True,
        identity_providers=["okta"],
        policy=[{"allow": {"user": "d@b.org"}}, {"deny": {"domain": "evil.org"}, "mode": "shadow"}],
    )
    assert [(block.key, block.effect, block.mode, block.is_route_key) for block in route.blocks] == [
        ("identity_providers", "deny", "enforce", True),
        ("cors_allow_preflight", "allow", "enforce", True),
        ("allowed_users", "allow", "enforce", True),
        ("allowed_groups", "allow", "enforce", True),
        ("max_age", "authentication", "enforce", True),
        ("policy[0].allow", "allow", "enforce", False),
        ("policy[1].deny", "deny", "shadow", False),
    ]
    assert route.blocks[2].expression == Comparison("allowed_users", "user", "", "in", False, ("a@b.org", "c@b.org"))
    assert make_route(allowed_users=[], allowed_idp_claims={}).blocks == ()


def test_each_claim_is_one_of_several_comparisons() -> None:
    (block,) = make_route(allowed_idp_claims={"team": ["a"], "office": [1, True]}).blocks
    assert isinstance(block.expression, Combination)
    assert (block.key, block.expression.operator) == ("allowed_idp_claims", "or")
    assert sorted((part.argument, part.operand) for part in iter_comparisons([block])) == [("office", (1, True)), ("team", ("a",))]
