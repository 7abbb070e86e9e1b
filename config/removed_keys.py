"""Keys of earlier releases that were removed, each with its replacement."""

SETTINGS = {
    "administrators": "was removed together with impersonation in release 0.13. Use admin_allowed_users",
    "authenticate_internal_url": "was removed in release 0.3. Use authenticate_service_url",
    "cache_service_url": "was renamed in release 0.10. Use databroker_service_url",
    "enable_user_impersonation": "was removed together with impersonation in release 0.13, without a replacement. Remove it",
    "envoy_remembers": "was removed: Envoy checks each request with gate. Remove it",
    "policy_file": "was removed in release 0.0.5. Write the routes under `policy` in the configuration file",
    "tracing_debug": "was removed in release 0.9. Use tracing_sample_rate (1 traces every request)",
    "tracing_sampling_rate": "was renamed in release 0.9. Use tracing_sample_rate",
}

ROUTE_KEYS = {
    "sub_policies": "is not available. Write its lists (allowed_users, allowed_groups, ...) into the route",
}
