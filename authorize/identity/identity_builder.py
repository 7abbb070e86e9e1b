"""Build an Identity from the records of a user, without side effects.  Raises ValueError for invalid records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from authorize.policy.identity import GrantPeriod, Identity
from config.provider_config import ProviderConfig, provider_for_user
from config.routes.route_bearer_tokens import JWT
from config.settings.linked_accounts import VERIFIED_EMAIL
from databroker.claims import (
    email_assertions,
    flatten_claims,
    groups_in_flat,
    is_session_address,
    is_yes,
    may_match_by_email,
    names_all_groups,
    verified_email_for,
)
from databroker.grants.grant_records import GrantSubject
from databroker.records import DirectoryUser, SessionRecord, UserRecord
from foundation.claim_values import NullValues
from foundation.email_address import canonical_email, display_name

# Other claims that contain the address at some provider, or for some application.
EMAIL_ALIASES = ("mail", "emailaddress", "email_address")


@dataclass(frozen=True, slots=True)
class IdentityInputs:
    """Records that an identity is built from.

    `matchable_group_names` are the group names and e-mail addresses that rules compare.  `group_names` are released to upstreams.
    `directory_user` is None if the directory has no record of the user.
    """

    session: SessionRecord
    user: UserRecord
    directory_user: DirectoryUser | None
    group_names: tuple[str, ...] = ()
    matchable_group_names: frozenset[str] = frozenset()
    access: Mapping[str, GrantPeriod] = field(default_factory=dict)


def build_identity(inputs: IdentityInputs, provider: ProviderConfig | None) -> Identity:
    """Build the identity from records.  `provider` is the provider of the session, None for a token of an external issuer.

    Groups are incomplete if the provider's groups claim is expected and missing.  A directory has a record for users without groups.
    """
    session, user, directory_user = inputs.session, inputs.user, inputs.directory_user or DirectoryUser(inputs.session.user_id)
    # The user record has the claims of the latest sign-in.  A session must not get the claims of another one, which may be stronger.
    claims = flatten_claims(session.claims)
    # Addresses and groups of an external issuer are not trusted: no rule matches them, and upstreams receive none.
    is_external = session.provider == JWT
    may_match = may_match_by_email(user, session.claims)
    verified_email = verified_email_for(user, session.claims, provider) if not is_external else ""
    groups_claim = provider.groups_claim if provider is not None else ""
    # This session may have started with another address than the user's latest sign-in.
    has_unauthoritative_email = provider is not None and not all(provider.owns_address(email) for email in claims.get("email", ()))
    if "email" in claims and (has_unauthoritative_email or not (verified_email or (is_external and may_match))):
        # A rule on the claim is also a rule on e-mail.  Upstreams receive `Identity.email` instead.  The claim exists, so it must not count
        # as missing.
        claims["email"] = NullValues()
    for alias in EMAIL_ALIASES:
        # `email_verified` refers only to the address in `email`.
        if not (is_external and may_match) and any(
            not verified_email or canonical_email(value) != verified_email for value in claims.get(alias, ())
        ):
            claims[alias] = NullValues()
    group_ids = () if is_external else tuple(dict.fromkeys([*directory_user.group_ids, *groups_in_flat(claims, groups_claim)]))
    return Identity(
        session_id=session.id,
        user_id=session.user_id,
        subject=session.subject,
        provider=session.provider,
        expires_at=session.expires_at,
        issued_at=session.issued_at,
        auth_time=session.auth_time,
        email="" if is_external else authoritative_email(user.email if is_session_address(user.email, session.claims) else "", provider),
        verified_email=verified_email,
        directory_email="" if is_external else authoritative_email(directory_user.email, provider),
        name=display_name(_text(user.name) or _text(directory_user.name), verified_email),
        group_ids=frozenset(group_ids),
        group_names=frozenset() if is_external else inputs.matchable_group_names - frozenset(group_ids),
        groups=() if is_external else tuple(dict.fromkeys([*group_ids, *inputs.group_names])),
        groups_incomplete=provider is not None and _are_groups_incomplete(inputs, claims, provider),
        claims=claims,
        grants=inputs.access,
        is_single_provider=provider is None or provider.is_only_provider,
        linked_id=linked_id_for(user, session.claims, provider),
        client_id=session.agent.client_id if session.agent is not None else "",
    )


def _are_groups_incomplete(inputs: IdentityInputs, claims: Mapping[str, tuple[Any, ...]], provider: ProviderConfig) -> bool:
    """Return whether the person may be in more groups than are known: the directory has no record of them, or the claim that names
    groups is missing where everybody is to have it, is kept elsewhere, or has a value that can't be read.

    An empty list says that there are none; no claim says nothing.
    """
    if provider.has_group_records and inputs.directory_user is None:
        return True
    if not provider.groups_claim:
        return False
    values = claims.get(provider.groups_claim)
    return provider.expects_groups_claim if values is None else not names_all_groups(values)


# enforcement-point: Identity: Linked accounts
def linked_id_for(user: UserRecord, session_claims: Mapping[str, Any], provider: ProviderConfig | None) -> str:
    """Return the id of the user that the account is linked to by its address, or "".

    Accounts are not linked if their provider does not link, or did not assert that the address is verified.  A session that began under
    another address is not linked, because the account may have changed hands.
    """
    if provider is None or not provider.links_by_email or provider.domains is None:
        return ""
    # A missing assertion does not count, because users may choose their address at some providers.
    if not (provider.trusts_email or any(map(is_yes, email_assertions(user, session_claims)))):
        return ""
    email = verified_email_for(user, session_claims, provider)
    return f"{VERIFIED_EMAIL}/{email}" if email else ""


def grant_subject(user_id: str, issuer: str, linked_id: str) -> GrantSubject:
    """Return the subject of the temporary access of an account's user."""
    return GrantSubject(linked_id, VERIFIED_EMAIL) if linked_id else GrantSubject(user_id, issuer)


def grant_subject_for_user(user: UserRecord, providers: Mapping[str, ProviderConfig]) -> GrantSubject:
    """Return the subject of an account's temporary access from its record alone, without a session."""
    return grant_subject(user.id, user.effective_issuer, linked_id_for(user, {}, provider_for_user(user.id, providers)))


def authoritative_email(value: Any, provider: ProviderConfig | None) -> str:
    """Return the address, or "" if the provider is not authoritative for it."""
    return _text(value) if provider is not None and provider.owns_address(value) else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
