"""An identity begins with nothing that a rule could match."""

from authorize.policy.identity import Identity


def test_an_identity_says_no_more_than_it_was_told() -> None:
    identity = Identity(session_id="s", user_id="oidc/1", subject="1", provider="oidc", expires=1.0)
    assert (identity.rule_email, identity.group_ids, identity.group_names, identity.groups, dict(identity.claims)) == (
        "",
        frozenset(),
        frozenset(),
        (),
        {},
    )
