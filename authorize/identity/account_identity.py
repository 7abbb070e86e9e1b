"""Identity of a service account.  Values alone: who checks a configuration needs no store for it."""

from authorize.policy.identity import Identity
from config.settings.provider_entry import SERVICE_ACCOUNT as PROVIDER
from databroker.records import ServiceAccountRecord

# What is attested of an account is good for no longer, however long the account itself lives.
IDENTITY_SECONDS = 3600.0


def identity_of(account: ServiceAccountRecord, now: float) -> Identity:
    """Identity without e-mail address and claims.  Its id is of a provider that no person has: rules can't take one for the other."""
    id = f"{PROVIDER}/{account.name}"
    groups = tuple(map(str, account.groups))
    return Identity(
        session_id=id,
        user_id=id,
        subject=id,
        provider=PROVIDER,
        expires=min(float(account.expires), now + IDENTITY_SECONDS),
        issued=max(float(account.created), float(account.rotated)),
        name=account.name,
        group_ids=frozenset(groups),
        groups=groups,
    )
