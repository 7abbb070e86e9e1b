"""Defences of the configuration: what it says is understood, or the operator hears why it is not."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, in_text, lacks, never, omits, passes, replaced, skips

online = door("gateproject.management.online_checks", "unit/gateproject/management/test_online_checks.py")
online.without("a client that the provider refuses is told", "_client_of", never("refusal is not None"))
online.without("a provider without keys is told", "provider_findings", never("discovery.jwks_uri and not await client.keys(discovery)"))

weaknesses = door("config.weaknesses", "unit/config/test_weaknesses.py")
weaknesses.without("a host without a certificate is told", "WEAKNESSES", lacks("_hosts_that_no_certificate_covers"))
weaknesses.without("one port unlike the others is told", "WEAKNESSES", lacks("_one_port_unlike_the_others"))
weaknesses.without("identity in a cookie is warned of", "WEAKNESSES", lacks("_identity_in_a_cookie_of_clients"))

templates = door("config.importing.templates", "unit/config/importing/test_templates.py")
templates.without("a reference is not sent as text", "request_headers", never("isinstance(content, str) and _REFERENCE.search(...)"))
templates.without("a reference beside one of gate's is not sent as text", "request_headers", replaced("_is_whole(ours)", "True"))

accepted = door("config.importing.refused_values", "unit/config/importing/test_refused_values.py")
accepted.without("an authority is not dropped", "_taken_out", never("key in _STAYS"))
accepted.without("a route that leads nowhere is kept closed", "_out_of_route", replaced("_lead_nowhere(route)", "route.drop('from')"))
accepted.without("what leads nowhere lets nobody pass", "_lead_nowhere", skips("route.close()"))

converted = door("config.importing.converted", "unit/config/importing/test_refused_values.py")
converted.without("who loses what kept it narrow is closed", "ConvertedPart.refuse", never('key in _NARROWING and self.has("from")'))

pomerium = door("config.importing.pomerium", "unit/config/importing/test_pomerium.py")
pomerium.without("a lost list of revoked certificates closes the routes", "convert", skips("for route in converted.routes: ..."))

alpha = door("config.importing.oauth2_proxy_alpha", "unit/config/importing/test_oauth2_proxy_alpha.py")
alpha.without("a vendor's restriction is one", "_alpha_providers", replaced("key in ALPHA_VENDORS", "key in ()"))

accepted.without("who is let in against the original is not", "leave_out_failing_tests", skips("route.close()"))

bounds = door("config.importing.path_bounds", "unit/config/importing/test_path_bounds.py", "unit/config/importing/authelia/test_convert.py")
bounds.without("a query may follow where the expression wanted the end", "_surely", never("sees_query and _ENDS.search(...)"))
bounds.without("what is escaped may be anything", "_surely", lacks("'not_contains'"))
bounds.without("an expression of anything may match in the query", "_possibly", replaced("True", "False"))
bounds.without("what is quoted is not read", "path_bounds", never(r'"\\Q" in expression'))
bounds.without("an alternative is bounded by itself", "path_bounds", replaced("_alternatives(expression)", "[expression]"))

authelia = door("config.importing.authelia.convert", "unit/config/importing/authelia/test_convert.py")
authelia.without("a stricter rule before it wins", "_grant", replaced("none_of(...)", "True"))
authelia.without("one factor is a sign-in", "_grant", replaced("SIGNED_IN if signed_in else True", "True"))
authelia.without("two factors are two", "_grant", replaced("SECOND_FACTOR if rule.policy == TWO_FACTOR else True", "True"))
authelia.without("what is not read opens nothing", "_taken", never("surely and rule.unread"))

authentik = door("config.importing.authentik.convert", "unit/config/importing/authentik/test_convert.py")
authentik.without("bindings that are not told may narrow", "_bound", never("not knows_all"))
authentik.without(
    "a policy that is not carried over lets nobody in",
    "_of_binding",
    never('binding.is_conditional or binding.attrs.get("policy") or not (group or person)'),
)
authentik.without("without an application nobody passes", "_bound", replaced("Bound(False)", "Bound(SIGNED_IN)", times=2))

upstreams = door("config.importing.upstreams", "unit/config/importing/test_upstreams.py")
upstreams.without("a place with limits of its own is closed", "take_upstreams", skips("routes[-1].close()"))

database = door("gateproject.process.database", "unit/gateproject/process/test_database.py")
database.without("a database of a newer release is left alone", "migrate", skips("_require_none_newer(loader)"))

validation = door("config.validation", "unit/config/test_validation.py", "unit/config/test_load.py")
validation.without("an unknown key is an error", "Settings.model_config", passes(extra='"ignore"'))
validation.without("unknown keys are described up to a bound", "_without_most_unknown", replaced("unknown[:MOST_DETAILS]", "unknown"))
validation.without("a message holds no value", "Settings.model_config", omits("hide_input_in_errors"))

options = door("config.options", "unit/config/test_options.py")
options.without(
    "no TLS is a decision",
    "_transport_is_decided",
    never("not settings.insecure_server and not settings.autocert and not settings.certificates and not any(forms)"),
)

route = door("config.routes.route", "unit/config/routes/test_route.py")
route.without("an open route has no lists", "Route.RULES", lacks("_open_routes_have_no_lists"))

route_values = door("config.routes.values", "unit/config/routes/test_route.py")
route_values.without(
    "no origin stands for every sandboxed frame", "_origin", never('written.lower() == "null" or written.lower().startswith("file:")')
)
route_values.without("a route is reached by https", "_from_url", never('parsed.scheme not in ("https", "tcp+https")'))

upstream_urls = door("config.routes.upstreams.urls", "unit/config/routes/upstreams/test_urls.py")
upstream_urls.without("a weight is not lost", "upstream_urls", never("len({weight is None for _, weight in pairs}) > 1"))
upstream_urls.without("a path of one upstream is not lost", "upstream_urls", never("len({url.path for url, _ in pairs}) > 1"))

config_headers = door("config.types.headers", "unit/config/types/test_headers.py")
config_headers.without("a configured header can't say who somebody is", "request_headers", never('folded(name).startswith("x-gate-")'))
config_headers.without("a configured value can't end its header", "_check_header", never("not _VALUE.fullmatch(content)"))

fields = door("config.types.fields", "unit/config/types/test_fields.py")
fields.without("a key has 32 bytes", "key_of_32_bytes", replaced("len(secret) != 32", "not secret"))

fields.without(
    "a key in the place of a path is not shown", "watched_file", never('written.lstrip().startswith((_PEM_AS_BASE64, "-----BEGIN"))')
)

documents = door("config.documents.parse", "unit/config/documents/test_parse.py")
documents.without("a key that is there twice in JSON is a mistake", "_read_json.pairs_to_map", never("len(found) < len(pairs)"))
documents.without("a name in TOML has a depth", "_bound_toml", never("dots >= DEEPEST"))
documents.without("a TOML text has a bounded number of values", "_bound_toml", never("signs > MOST_TOML_SIGNS"))
documents.without("a JSON text has a bounded number of values", "_bounded", never("(count := (count + len(level))) > MOST_VALUES"))
documents.without("slow parsers get short texts", "parse", never("len(text) > LONGEST_IN_PYTHON"))

places = door("config.documents.document", "unit/config/documents/test_parse.py")
places.without("keys there twice are described up to a bound", "Document.add_twice", never("len(self.problems) == MOST_TWICE"))

yaml_reader = door("config.documents.yaml_reader", "unit/config/documents/test_parse.py")
yaml_reader.without("a key that is there twice is a mistake", "_Builder._pair", never("key in parent.container"))
yaml_reader.without(
    "a text with the signs of too many values is not parsed",
    "read_yaml",
    skips("_bound(text)"),
    "unit/config/documents/test_yaml_reader.py",
)
yaml_reader.without("aliases unfold to a bounded size", "_Builder._alias", never("self._aliased > MOST_ALIASED_VALUES"))

authenticate = door("config.settings.authenticate", "unit/config/settings/test_authenticate.py")
authenticate.without("a provider is reached by https", "provider_url", never("not is_confidential(url.scheme, url.host)"))
authenticate.without("a configured parameter can't replace state, nonce or PKCE", "request_params", never("name.lower() in OWN_PARAMETERS"))

load = door("config.load", "unit/config/test_load.py")
load.without(
    "a configuration with any mistake is refused whole",
    "_ConfigChecker.check",
    never("errors"),
)

checks = door("authorize.config_checks", "unit/authorize/test_config_checks.py")
checks.without("a failing policy test is a problem", "_failure", never("_WORDS[decision.outcome] != test.expect"))
checks.without(
    "a policy test names the route that must match",
    "_failure",
    never("test.route is not None"),
)
checks.without("an untrusted certificate is one", "_with_certificate", always("shown.is_trusted"))

unreachable = door("authorize.policy.unreachable_routes", "unit/authorize/policy/test_unreachable_routes.py")
unreachable.without("an alternation may begin with anything", "literal_beginning", never('"|" in regex'))
unreachable.without(
    "routes of another port are not compared",
    "unreachable",
    replaced("(route.from_.scheme, route.from_.host, port)", "(route.from_.scheme, route.from_.host, None)"),
)

files = door("config.types.files", "unit/config/types/test_files.py")
files.without("what is no file is refused", "open_file", never("not stat.S_ISREG(os.fstat(descriptor).st_mode)"))

LIVE_RELOAD = "integration/test_rungate.py"
runtime = door("gateproject.process.runtime", f"{LIVE_RELOAD}::test_what_needs_a_restart_says_so_and_the_rest_takes_over")
runtime.without(
    "what needs a restart waits for it",
    "Runtime._next_services",
    replaced("without_restart_only_changes(written, self.options)", "written"),
)
runtime.without(
    "a broken configuration takes nothing over",
    "Runtime._reload",
    replaced(
        "services, in_force = await self._settled_services()",
        "try:\n    services, in_force = await self._settled_services()\nexcept ConfigError:\n    in_force = self.in_force\n    services = self._builder.build(self.options.model_copy(update={'policy': ()}), self.services)",
    ),
    f"{LIVE_RELOAD}::test_a_broken_file_keeps_the_last_good_one_and_says_what_is_wrong",
)
WITHIN = "unit/gateproject/process/test_runtime.py"
runtime.without(
    "nothing is swapped before Envoy has taken it",
    "Runtime._reload",
    replaced('await self.envoy.prepare(options) if self.envoy is not None else ""', '""'),
    WITHIN,
)
runtime.without("a reload comes after the start", "Runtime._start", replaced("self._reloading", "asyncio.Lock()"), WITHIN)
runtime.without("Envoy goes back where the rest can't go on", "Runtime._reload", skips("self.envoy.restore()"), WITHIN)
runtime.without("what is being written is not read", "Runtime._settled_services", skips("await self.source.settle()"), WITHIN)
runtime.without(
    "what the new configuration names has settled",
    "Runtime._settled_services",
    always("await asyncio.to_thread(self.source.unsettled) is None"),
    WITHIN,
)
reload = door("gateproject.process.reload", WITHIN)
reload.without("what lags is no success", "ConfigurationStatus.but_lagging", never("problems"))
reload.without("a part that fails undoes nothing", "Reload.tell", replaced("Exception", "ZeroDivisionError"))
routes_that_say = door("config.routes.configured_routes", "unit/config/routes/test_configured_routes.py")
routes_that_say.without(
    "who says one of several is found", "ConfiguredRoutes.saying", replaced("said.isdisjoint(names)", "said.isdisjoint(names[:1])")
)
routes_that_say.without(
    "a route that is no other is looked at", "ConfiguredRoutes.beside", replaced("id(route) not in known", "route not in others")
)
of_each_route = door("authorize.config_checks", "unit/authorize/test_config_checks.py")
of_each_route.without("a route in which something was found is not good", "OfEachRoute.__call__", skips("wrong.add(index)"))
kept_by_envoy = door("proxy.envoy.configuration", "unit/proxy/envoy/test_configuration.py")
kept_by_envoy.without(
    "what Envoy refused is not told to it again", "EnvoyConfiguration.restore", replaced("self._before", "(self.options, self._clusters)")
)
kept_by_envoy.without(
    "what Envoy may refuse is waited for",
    "EnvoyConfiguration.prepare",
    never("is_new or clusters.may_be_refused"),
)
kept_by_envoy.without(
    "where a body goes that is still coming stays there",
    "EnvoyConfiguration._publish_clusters",
    replaced("{**named, **self._recent}", "self._recent"),
)
runtime.without(
    "what is carried is judged by the new policy at once",
    "Runtime._tell",
    lacks('("open streams", resources.streams.policy_changed)'),
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
    "kept_until_restart",
    never('"insecure_server" in changed'),
    f"{RELOAD}::test_without_certificates_in_the_new_file_tls_stays_until_a_restart",
)
runtime.without(
    "a key that was taken out opens the admin no more",
    "Runtime._swap",
    skips("setattr(settings, name, value)"),
    f"{RELOAD}::test_the_cookies_name_and_keys_change_for_the_admin_too",
)
rungate = door("gateproject.management.commands.rungate", f"{RELOAD}::test_a_hangup_before_gate_is_ready_does_not_end_it")
rungate.without("a hangup while gate starts ends nothing", "Command.handle", skips("signal.signal(...)"))
locate = door("config.documents.key_positions", "unit/config/documents/test_key_positions.py", "unit/config/documents/test_parse.py")
locate.without(
    "the elements of a list have places of their own",
    "locate_json",
    replaced("here, index = (*base, index), index + 1", "here = (*base, index)"),
)
types = door("foundation.values", "unit/foundation/test_values.py")
types.without("a part of an address above 255 is none", "_BYTE", in_text("25[0-5]|2[0-4][0-9]|1", "[12]"))
listener_state = door("proxy.listener.state", "unit/proxy/listener/test_state.py")
listener_state.without(
    "a changed certificate is shown",
    "ListenerState.build",
    always("(before.pairs, before.min_version) == (pairs, options.tls_min_version)"),
    "unit/proxy/listener/test_state.py",
)

forms = door("config.file_forms", "unit/config/test_file_forms.py")
forms.without("two forms of a secret are one too many", "FileContents.add", never("setting in raw"))
forms.without("a file that can't be read is said once", "FileContents.add", skips("self.unread.add(setting)", times=2))

unchanged = door("config.routes.route_cache", "unit/config/test_source.py", "unit/config/routes/test_route_cache.py")
unchanged.without("a route follows the file it names", "RouteCache.add", always("next(watched_files(route), None) is None"))
unchanged.without(
    "a route that is written differently is read anew", "_key", replaced("marshal.dumps(written, 0)", "marshal.dumps(sorted(written), 0)")
)
source = door("config.source", "unit/config/test_source.py")
source.without("the file that will mend a refused configuration is watched", "ConfigSource.load", lacks("*checked.files"))
source.without("a change is seen by its stamp, whatever the file system's clock", "ConfigSource._last_change", always("before is None"))
source.without("files that settings name settle, too", "ConfigSource.unsettled", replaced("self._files()", "[self.path]"))
proxy_state = door("proxy.state", "unit/proxy/test_state.py")
proxy_state.without(
    "a changed setting reaches the routes that did not change",
    "ProxyState.__init__",
    always("previous._options.differs_in_routes_only(options)"),
)
proxy_state.without(
    "an unchanged route learns what its upstream is told on another",
    "ProxyState.__init__",
    never("is_told_otherwise(compiled.route)"),
)
route_table = door("authorize.policy.route_table", "unit/authorize/policy/test_route_table.py")
route_table.without("a new authority of all routes reaches the old ones", "RouteTable.build", always("previous._conditions == conditions"))
metrics_listener = door(
    "gateproject.process.metrics_listener", f"{RELOAD}::test_the_metrics_move_to_another_host_on_their_own_port_or_stay"
)
metrics_listener.without(
    "an address that can't be had leaves the metrics where they were",
    "MetricsListener._in_the_place_of",
    skips("self._served = ..."),
)
reload.without(
    "a refused configuration is told to Prometheus",
    "ConfigurationStatus.but_refused",
    skips("metrics.configuration_refused(service)"),
    f"{RELOAD}::test_policy_tests_that_fail_keep_the_last_good_configuration",
)
source.without(
    "a reload runs the policy tests",
    "ConfigSource.__init__",
    replaced("[check for check in checks if not check.warns]", "[]"),
    f"{RELOAD}::test_policy_tests_that_fail_keep_the_last_good_configuration",
)
route_table.without(
    "a replaced authority of all routes counts for the next request",
    "RouteTable.build",
    always("previous._conditions == conditions"),
    f"{RELOAD}::test_a_replaced_authority_of_all_routes_judges_connections_that_are_open",
)
operator_pages = door("foundation.telemetry.operator_pages", "unit/foundation/telemetry/test_operator_pages.py")
operator_pages.without("beside the pages for operators there is nothing", "OperatorPages.__call__", never("page is None"))

readiness = door("foundation.readiness", "unit/foundation/test_readiness.py")
readiness.without("a part that fails makes it not ready", "ReadinessReport.status", always("self.is_ready"))
own_health = door("databroker.service", "contract/test_readiness.py::test_a_store_that_is_lost_makes_it_not_ready_until_it_is_back")
own_health.without(
    "without the store it is not ready", "DataBrokerService.readiness", never("self._has_replica and not replica.is_following")
)

shown_values = door("config.shown.values", "unit/config/shown/test_values.py")
shown_values.without("of a secret only that it is set is shown", "_plain", never("is_secret(value)"))
shown_values.without("of headers only the names are shown", "_seen", never("(type(owner), key) in _NAMES_ONLY"))
shown_values.without("the query of a URL is on no page", "_QUERY", in_text(r"\?.*", r"\??(?!.*)"))
shown_values.without("a type that nobody knows is on no page", "_plain", always("isinstance(value, _AS_TEXT)"))

DOORS = (
    shown_values,
    readiness,
    own_health,
    reload,
    kept_by_envoy,
    routes_that_say,
    of_each_route,
    rungate,
    locate,
    types,
    load,
    checks,
    unreachable,
    files,
    listener_state,
    unchanged,
    source,
    proxy_state,
    route_table,
    metrics_listener,
    operator_pages,
    runtime,
    restart_only,
    validation,
    options,
    route,
    route_values,
    upstream_urls,
    config_headers,
    fields,
    documents,
    forms,
    places,
    yaml_reader,
    authenticate,
    online,
    weaknesses,
    templates,
    accepted,
    converted,
    pomerium,
    bounds,
    authelia,
    authentik,
    upstreams,
    database,
    alpha,
)
