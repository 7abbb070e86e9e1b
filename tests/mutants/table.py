"""Every mutant, in the order of the story: a request is read, judged, answered; a person signs in; a session ends."""

from tests.mutants import (
    autocert,
    configuration,
    directory,
    envoy,
    explanations,
    forward_auth,
    headers,
    kept_forms,
    listener,
    metrics,
    other_servers,
    policy,
    rpc,
    scim,
    sealed,
    session_life,
    sessions,
    sign_in,
    sign_out,
    step_up,
    tokens,
    tracing,
)
from tests.mutants.mutant import Mutant

_CHAPTERS = (
    listener,
    other_servers,
    autocert,
    policy,
    headers,
    sealed,
    sign_in,
    sign_out,
    step_up,
    session_life,
    sessions,
    tokens,
    kept_forms,
    scim,
    directory,
    rpc,
    forward_auth,
    explanations,
    tracing,
    metrics,
    envoy,
    configuration,
)

MUTANTS: tuple[Mutant, ...] = tuple(mutant for chapter in _CHAPTERS for door in chapter.DOORS for mutant in door.mutants)
