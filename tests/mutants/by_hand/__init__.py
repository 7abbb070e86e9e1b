"""Mutants that no generator makes: other values, members of sets, parts of expressions, and scripts in Lua."""

from tests.mutants.by_hand import (  # noqa: F401 - each adds its mutants to the table
    api,
    configuration,
    envoy,
    headers,
    listener,
    policy,
    rpc,
    scim,
    sealed,
    session_life,
    sessions,
    several_providers,
    sign_in,
    sign_out,
    tokens,
)
