"""Removed keys of earlier releases, and what to write instead."""

SETTINGS = {
    "administrators": "was removed together with impersonation in release 0.13; use admin_allowed_users, which opens the admin page",
    "authenticate_internal_url": "was removed in release 0.3; use authenticate_service_url",
    "cache_service_url": "was renamed in release 0.10; use databroker_service_url",
    "enable_user_impersonation": "was removed together with impersonation in release 0.13, and nothing replaces it",
    "envoy_remembers": "was removed: Envoy asks gate about each request; remove the key",
    "policy_file": "was removed in release 0.0.5; write the routes under `policy` in the configuration file",
    "tracing_debug": "was removed in release 0.9; use tracing_sample_rate, where 1 traces every request",
    "tracing_sampling_rate": "is spelled tracing_sample_rate since release 0.9",
}

ROUTE_KEYS = {
    "sub_policies": "is not available; write its lists (allowed_users, allowed_groups, ...) into the route itself",
}
