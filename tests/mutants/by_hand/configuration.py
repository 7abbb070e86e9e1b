"""Defences of the configuration: it is understood, or the operator gets an error."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, in_text, lacks, never, omits, passes, replaced, skips

accepted = door("config.importing.rejected_values", "unit/config/importing/test_rejected_values.py")
accepted.without(
    "a route that leads nowhere is kept closed", "_remove_from_route", replaced("_remove_upstream(route)", "route.drop('from')")
)

alpha = door("config.importing.oauth2_proxy_alpha", "unit/config/importing/test_oauth2_proxy_alpha.py")
alpha.without("a vendor's restriction is one", "_alpha_providers", replaced("key in ALPHA_VENDORS", "key in ()"))

bounds = door(
    "config.importing.path_bounds",
    "unit/config/importing/test_path_bounds.py",
    "unit/config/importing/authelia/test_authelia_conversion.py",
)
bounds.without("what is escaped may be anything", "_lower_bound", lacks("'not_contains'"))
bounds.without("an expression of anything may match in the query", "_upper_bound", replaced("True", "False"))
bounds.without("an alternative is bounded by itself", "approximate_path", replaced("_alternatives(expression)", "[expression]"))

authelia = door("config.importing.authelia.authelia_conversion", "unit/config/importing/authelia/test_authelia_conversion.py")
authelia.without("a stricter rule before it wins", "_rule_expression", replaced("combine_nor(...)", "True"))

authentik = door("config.importing.authentik.authentik_conversion", "unit/config/importing/authentik/test_authentik_conversion.py")
authentik.without(
    "a closed route without an application forwards nothing",
    "_resolve_bindings",
    replaced("BindingResult(False)", "BindingResult(SIGNED_IN)", times=2),
)

validation = door("config.validation", "unit/config/test_validation.py", "unit/config/test_loader.py")
validation.without("an unknown key is an error", "Settings.model_config", passes(extra='"ignore"'))
validation.without("unknown keys are described up to a bound", "_limit_unknown_keys", replaced("unknown[:MAX_DETAILS]", "unknown"))
validation.without("a message holds no value", "Settings.model_config", omits("hide_input_in_errors"))

fields = door("config.fields.basic_types", "unit/config/fields/test_basic_types.py")
fields.without("a key has 32 bytes", "key_of_32_bytes", replaced("len(secret) != 32", "not secret"))

unreachable = door("authorize.policy.unreachable_routes", "unit/authorize/policy/test_unreachable_routes.py")
unreachable.without(
    "routes of another port are not compared",
    "unreachable",
    replaced("(route.from_.scheme, route.from_.host, port)", "(route.from_.scheme, route.from_.host, None)"),
)

LIVE_RELOAD = "integration/test_reload.py"
runtime = door("gateproject.process.runtime", f"{LIVE_RELOAD}::test_restart_only_settings_are_logged")
runtime.without(
    "what needs a restart waits for it",
    "Runtime._build_next",
    replaced("keep_restart_only_values(written, self.options)", "written"),
)
runtime.without(
    "a broken configuration takes nothing over",
    "Runtime._reload",
    replaced(
        "services, provenance = await self._settled_services()",
        "try:\n    services, provenance = await self._settled_services()\nexcept ConfigError:\n    provenance = self.provenance\n    services = self.builder.build(self.options.model_copy(update={'policy': ()}), self.services)",
    ),
    f"{LIVE_RELOAD}::test_invalid_file_keeps_configuration_and_logs_problems",
)
WITHIN = "unit/gateproject/process/test_runtime.py"
runtime.without("a reload comes after the start", "Runtime._start", replaced("self._reloading", "asyncio.Lock()"), WITHIN)
reload = door("gateproject.process.reload", WITHIN)
reload.without("a part that fails undoes nothing", "Reload.apply", replaced("Exception", "ZeroDivisionError"))
envoy_retention = door("proxy.envoy.config_publisher", "unit/proxy/envoy/test_config_publisher.py")
envoy_retention.without(
    "a configuration that Envoy refused is not sent again",
    "EnvoyConfigPublisher.rollback",
    replaced("self._previous", "(self.options, self._clusters)"),
)
envoy_retention.without(
    "where a body goes that is still coming stays there",
    "EnvoyConfigPublisher._publish_clusters",
    replaced("{**named, **self._retained}", "self._retained"),
)
runtime.without(
    "what is carried is judged by the new policy at once",
    "Runtime._apply",
    lacks('("open streams", resources.streams.on_policy_change)'),
    WITHIN,
)
runtime.without(
    "a reload that fails is not the last",
    "Runtime.reload",
    replaced("Exception", "KeyError"),
    WITHIN,
)

RELOAD = "integration/test_reload.py"
restart_only = door("gateproject.process.restart_only", "unit/gateproject/process/test_restart_only.py")
restart_only.without(
    "TLS that stays keeps its certificates",
    "restart_required",
    never('"insecure_server" in changed'),
    f"{RELOAD}::test_without_certificates_in_the_new_file_tls_stays_until_a_restart",
)
runtime.without(
    "a key that was taken out opens the admin no more",
    "Runtime.swap",
    skips("setattr(settings, name, value)"),
    f"{RELOAD}::test_the_cookies_name_and_keys_change_for_the_admin_too",
)
rungate = door("gateproject.management.commands.rungate", f"{RELOAD}::test_a_hangup_before_gate_is_ready_does_not_end_it")
rungate.without("a hangup while gate starts ends nothing", "Command.handle", skips("signal.signal(...)"))
locate = door("config.parsing.key_positions", "unit/config/parsing/test_key_positions.py", "unit/config/parsing/test_parser.py")
locate.without(
    "each element of a list has its location",
    "locate_json",
    replaced("here, index = (*base, index), index + 1", "here = (*base, index)"),
)
types = door("foundation.values", "unit/foundation/test_values.py")
types.without("a part of an address above 255 is none", "_BYTE", in_text("25[0-5]|2[0-4][0-9]|1", "[12]"))

forms = door("config.file_forms", "unit/config/test_file_forms.py")
forms.without("a file that can't be read is said once", "FileContents.add", skips("self.unread.add(setting)", times=2))

unchanged = door("config.routes.route_cache", "unit/config/test_config_watcher.py", "unit/config/routes/test_route_cache.py")
unchanged.without("a route that is no other is looked at", "new_routes", replaced("id(route) not in known", "route not in others"))
unchanged.without(
    "a route that is written differently is parsed again",
    "_key",
    replaced("marshal.dumps(written, 0)", "marshal.dumps(sorted(written), 0)"),
)
source = door("config.config_watcher", "unit/config/test_config_watcher.py")
source.without("the file that will fix a refused configuration is watched", "ConfigWatcher.load", lacks("*checked.files"))
source.without("files that settings name settle, too", "ConfigWatcher.find_unsettled", replaced("self._files()", "[self.path]"))
route_table = door("authorize.policy.route_table", "unit/authorize/policy/test_route_table.py")
metrics_listener = door(
    "gateproject.process.metrics_listener", f"{RELOAD}::test_the_metrics_move_to_another_host_on_their_own_port_or_stay"
)
metrics_listener.without(
    "an address that can't be had leaves the metrics where they were",
    "MetricsListener._replace_listener",
    skips("self._served = ..."),
)
reload.without(
    "a refused configuration is reported to Prometheus",
    "ConfigurationStatus.rejected_with",
    skips("metrics.record_config_rejected(service)"),
    f"{RELOAD}::test_failing_policy_tests_keep_configuration",
)
source.without(
    "a reload runs the policy tests",
    "ConfigWatcher.__init__",
    replaced("[check for check in checks if not check.warns]", "[]"),
    f"{RELOAD}::test_failing_policy_tests_keep_configuration",
)
route_table.without(
    "a replaced authority of all routes counts for the next request",
    "RouteTable.build",
    always("previous._compile_key == compile_key"),
    f"{RELOAD}::test_replaced_client_ca_applies_to_open_connections",
)

own_health = door("databroker.service", "contract/test_readiness.py::test_a_store_that_is_lost_makes_it_not_ready_until_it_is_back")
own_health.without(
    "without the store it is not ready", "DataBrokerService.readiness", never("self._has_replica and not replica.is_following")
)

redaction = door("config.inspect.redaction", "unit/config/inspect/test_redaction.py")
redaction.without("the query of a URL is on no page", "_QUERY", in_text(r"\?.*", r"\??(?!.*)"))

# Defences of recorded decisions: shadow mode allows nothing, no secret is recorded, only administrators read them.

facts = door("authorize.decision_log.decision_snapshot", "unit/authorize/decision_log/test_decision_snapshot.py")
facts.without(
    "a claim that no rule names is not written down",
    "snapshot_identity",
    replaced("inputs.claims & identity.claims.keys()", "identity.claims"),
)
facts.without("what can't be compared is written down", "snapshot_identity", lacks('"claim_kinds"'))
facts.without("unknown groups are recorded as unknown", "snapshot_identity", lacks('"groups_incomplete"'))

last_seen_at = door("databroker.projection.rows", "unit/databroker/projection/test_rows.py")
last_seen_at.without(
    "a later to_datetime is not overwritten",
    "_update_last_seen",
    replaced('f"({names[0]} IS NULL OR {names[0]} <= %s)"', 'f"%s IS NOT NULL"'),
)

admin = door("authorize.admin", "unit/authorize/test_admin.py")
admin.without(
    "only administrators get explanations as pages",
    "DecisionAdmin.get_urls",
    replaced("self.admin_site.admin_view(self.explain_view)", "self.explain_view"),
)

filters = door("authorize.timeline.timeline_filters", "unit/authorize/timeline/test_timeline_filters.py")
filters.without("a search has few words", "search", replaced("text.replace('\\x00', '').split()[:MAX_TERMS]", "text.split()"))

admin.without(
    "only administrators replay",
    "DecisionAdmin.get_urls",
    replaced("self.admin_site.admin_view(self.replay_view)", "self.replay_view"),
)

replay = door("authorize.explain.replay", "unit/authorize/explain/test_replay.py")
replay.without(
    "what was not written down is not guessed", "_replay", replaced("missing_inputs(route.route, request, identity_snapshot)", "''")
)

# Defences of tracing: which peers start a trace, how many, and what a span contains.

spans = door("foundation.telemetry.tracing.spans", "unit/foundation/telemetry/tracing/test_spans.py")
spans.without("an error's message is not exported", "Span.__exit__", replaced("kind.__name__", "str(error)"))

export = door("foundation.telemetry.tracing.export", "unit/foundation/telemetry/tracing/test_export.py")
export.without("spans are led nowhere else", "_post", passes(follow_redirects="True"))
export.without("a key in the URL is not logged", "exporter", replaced('f"{target.origin}{target.path}"', "url"))

# Defences of the numbers: what strangers say makes no series, and so no memory, without end.

calls = door("foundation.telemetry.grpc_metrics", "unit/foundation/telemetry/test_grpc_metrics.py")
calls.without(
    "callers' names make no series", "GrpcMetrics.observe", replaced("self._names.get(method, UNKNOWN)", "tuple(method.split('/')[:0:-1])")
)

answered = door("proxy.observe.request_metrics", "unit/proxy/observe/test_request_metrics.py")
answered.without(
    "clients' hosts make no series", "RequestCounter._host_label", replaced("wildcard if wildcard in self._hosts else OTHER", "host")
)

page = door("foundation.telemetry.exposition", "unit/foundation/telemetry/test_exposition.py")
page.without(
    "no name ends its label", "escape_label", replaced(r"""value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")""", "value")
)
many = door("config.options", "unit/proxy/upstreams/test_route_statistics.py")
many.without(
    "ten thousand routes make no ten thousand histograms",
    "Options.has_route_metrics",
    replaced("len(self.policy) <= MAX_ROUTES_WITH_METRICS", "True"),
)
by_envoy = door("proxy.envoy.process.envoy_statistics", "unit/proxy/envoy/process/test_envoy_statistics.py")
by_envoy.without("clusters of no route are not reported", "_line", replaced("labels.get(match[1])", "labels.get(match[1], match[1])"))

output = door("foundation.telemetry.output", "unit/foundation/telemetry/test_output.py")
output.without(
    "no request waits for a log reader",
    "NonBlockingOutput._put",
    replaced(
        "if not self._is_awake:\n    self._is_awake = True\n    self._wake.put(None)", "os.write(self._descriptor, self._take().encode())"
    ),
)

page_metrics = door("gateproject.middleware", "integration/test_metrics.py::test_page_metrics_have_bounded_labels")
page_metrics.without("clients' methods make no series of our pages", "PageMetricsMiddleware.label_metric", never('"method" in labels'))
door("foundation.telemetry.output", "unit/foundation/telemetry/test_output.py").without(
    "last log lines are written", "install_non_blocking_output", skips("atexit.register(output.drain)")
)
door("gateproject.process.database_migrations", "unit/gateproject/process/test_database_migrations.py").without(
    "a database of a newer release is left alone", "migrate", skips("_require_known(loader)")
)
door("gateproject.process.start", "unit/gateproject/process/test_start.py").without(
    "a running gate waits for no reader", "runtime_from_settings", skips("install_non_blocking_output(...)")
)
