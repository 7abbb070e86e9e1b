"""Defences of the configuration: what it says is understood, or the operator hears why it is not."""

from tests.mutants.mutant import door

online = door("gateproject/management/online_checks.py", "unit/gateproject/management/test_online_checks.py")
online.without("a client that the provider refuses is told", "if error in _NOT_US:", "if False:")
online.without("a provider without keys is told", "if discovery.jwks_uri and not await client.keys(discovery):", "if False:")

weaknesses = door("config/weaknesses.py", "unit/config/test_weaknesses.py")
weaknesses.without("a host without a certificate is told", "    _hosts_that_no_certificate_covers,\n", "")
weaknesses.without("one port unlike the others is told", "    _one_port_unlike_the_others,\n", "")

templates = door("config/importing/templates.py", "unit/config/importing/test_templates.py")
templates.without("a reference is not sent as text", "if _REFERENCE.search(bare):", "if False:")

accepted = door("config/importing/refused_values.py", "unit/config/importing/test_refused_values.py")
accepted.without("an authority is not dropped", "entry is None or key in _STAYS or", "entry is None or")
accepted.without("a route that leads nowhere is kept closed", "            _lead_nowhere(route)\n", "            route.drop('from')\n")
accepted.without("what leads nowhere lets nobody pass", "    route.close()\n    said =", "    said =")

converted = door("config/importing/converted.py", "unit/config/importing/test_refused_values.py")
converted.without("who loses what kept it narrow is closed", 'if key in _NARROWING and self.has("from"):', "if False:")

pomerium = door("config/importing/pomerium.py", "unit/config/importing/test_pomerium.py")
pomerium.without(
    "a lost list of revoked certificates closes the routes", "        for route in converted.routes:\n            route.close()\n", ""
)

alpha = door("config/importing/oauth2_proxy_alpha.py", "unit/config/importing/test_oauth2_proxy_alpha.py")
alpha.without("a vendor's restriction is one", "elif key in ALPHA_VENDORS and", "elif key in () and")

validation = door("config/validation.py", "unit/config/test_validation.py", "unit/config/test_load.py")
validation.without("an unknown key is an error", 'extra="forbid"', 'extra="ignore"')
validation.without("unknown keys are described up to a bound", "*unknown[:MOST_DETAILS])}", "*unknown)}")
validation.without("a message holds no value", "hide_input_in_errors=True, ", "")

options = door("config/options.py", "unit/config/test_options.py")
options.without(
    "no TLS is a decision",
    "not settings.insecure_server and not settings.autocert and not settings.certificates and not any(forms):",
    "False:",
)

route = door("config/routes/route.py", "unit/config/routes/test_route.py")
route.without("an open route has no lists", "        _open_routes_have_no_lists,\n", "")

route_values = door("config/routes/values.py", "unit/config/routes/test_route.py")
route_values.without("a route is reached by https", '    if parsed.scheme not in ("https", "tcp+https"):\n', "    if False:\n")

upstream_urls = door("config/routes/upstream_urls.py", "unit/config/routes/test_upstream_urls.py")
upstream_urls.without("a weight is not lost", "    if len({weight is None for _, weight in pairs}) > 1:\n", "    if False:\n")
upstream_urls.without("a path of one upstream is not lost", "    if len({url.path for url, _ in pairs}) > 1:\n", "    if False:\n")

config_headers = door("config/types/headers.py", "unit/config/types/test_headers.py")
config_headers.without("a configured header can't say who somebody is", 'if folded(name).startswith("x-gate-"):', "if False:")
config_headers.without("a configured value can't end its header", "if not _VALUE.fullmatch(content):", "if False:")

fields = door("config/types/fields.py", "unit/config/types/test_fields.py")
fields.without("a key has 32 bytes", "if len(secret) != 32:", "if not secret:")

fields.without("a key in the place of a path is not shown", 'if written.lstrip().startswith((_PEM_AS_BASE64, "-----BEGIN")):', "if False:")

documents = door("config/documents/parse.py", "unit/config/documents/test_parse.py")
documents.without("a key that is there twice in JSON is a mistake", "        if len(found) < len(pairs):\n", "        if False:\n")
documents.without("a name in TOML has a depth", "        if dots >= DEEPEST:\n", "        if False:\n")
documents.without("a TOML text has a bounded number of values", "        if signs > MOST_TOML_SIGNS:\n", "        if False:\n")
documents.without(
    "a JSON text has a bounded number of values", "        if (count := count + len(level)) > MOST_VALUES:\n", "        if False:\n"
)
documents.without("slow parsers get short texts", " and len(text) > LONGEST_IN_PYTHON:", " and False:")

places = door("config/documents/document.py", "unit/config/documents/test_parse.py")
places.without("keys there twice are described up to a bound", "        if len(self.problems) == MOST_TWICE:\n", "        if False:\n")

yaml_reader = door("config/documents/yaml_reader.py", "unit/config/documents/test_parse.py")
yaml_reader.without("a key that is there twice is a mistake", "        elif key in parent.container:\n", "        elif False:\n")
yaml_reader.without(
    "a text with the signs of too many values is not parsed",
    "    _bound(text)\n",
    "",
    "unit/config/documents/test_yaml_reader.py",
)
yaml_reader.without("aliases unfold to a bounded size", "if self._aliased > MOST_ALIASED_VALUES:", "if False:")

authenticate = door("config/groups/authenticate.py", "unit/config/groups/test_authenticate.py")
authenticate.without("a provider is reached by https", "if not is_confidential(url.scheme, url.host):", "if False:")
authenticate.without("a configured parameter can't replace state, nonce or PKCE", "if name.lower() in OWN_PARAMETERS:", "if False:")

load = door("config/load.py", "unit/config/test_load.py")
load.without(
    "a configuration with any mistake is refused whole",
    "return CheckedConfig(None if errors else options, errors,",
    "return CheckedConfig(options, errors,",
)

checks = door("authorize/config_checks.py", "unit/authorize/test_config_checks.py")
checks.without("a failing policy test is a problem", "    if _WORDS[decision.outcome] != test.expect:\n", "    if False:\n")
checks.without(
    "a policy test names the route that must match",
    "    if test.route is not None and test.route not in",
    "    if False and test.route not in",
)
checks.without("an untrusted certificate is one", ' "" if shown.is_trusted else "is not of the route\'s authority"', ' ""')

unreachable = door("authorize/policy/unreachable_routes.py", "unit/authorize/policy/test_unreachable_routes.py")
unreachable.without("an alternation may begin with anything", '    if "|" in regex:\n', "    if False:\n")
unreachable.without(
    "routes of another port are not compared",
    "lists.setdefault((route.from_.scheme, route.from_.host, port)",
    "lists.setdefault((route.from_.scheme, route.from_.host, None)",
)

files = door("config/types/files.py", "unit/config/types/test_files.py")
files.without("what is no file is refused", "    if not stat.S_ISREG(os.fstat(descriptor).st_mode):\n", "    if False:\n")

LIVE_RELOAD = "integration/test_rungate.py"
runtime = door("gateproject/process/runtime.py", f"{LIVE_RELOAD}::test_what_needs_a_restart_says_so_and_the_rest_takes_over")
runtime.without("what needs a restart waits for it", "without_restart_only_changes(self.source.load(), self.options)", "self.source.load()")
runtime.without(
    "a broken configuration takes nothing over",
    "        options, services = await asyncio.to_thread(self._next_services)\n",
    "        try:\n            options, services = await asyncio.to_thread(self._next_services)\n"
    "        except ConfigError:\n"
    '            options = self.options.model_copy(update={"policy": ()})\n'
    "            services = self._build(options, self.services)\n",
    f"{LIVE_RELOAD}::test_a_broken_file_keeps_the_last_good_one_and_says_what_is_wrong",
)
WITHIN = "unit/gateproject/process/test_runtime.py"
runtime.without(
    "nothing is swapped before Envoy has taken it",
    "late = await self.envoy.prepare(options) if self.envoy is not None else",
    "late =",
    WITHIN,
)
runtime.without("Envoy goes back where the rest can't go on", "                self.envoy.restore()\n", "                pass\n", WITHIN)
reload = door("gateproject/process/reload.py", WITHIN)
reload.without("what lags is no success", "        if problems:\n", "        if False:\n")
reload.without("a part that fails undoes nothing", "        except Exception as error:", "        except ZeroDivisionError as error:")
kept_by_envoy = door("proxy/envoy/service.py", "unit/proxy/envoy/test_service.py")
kept_by_envoy.without("what Envoy refused is not told to it again", "options, self._clusters = self._before", "options, _ = self._before")
runtime.without(
    "what is carried is judged by the new policy at once",
    '            ("open streams", resources.streams.policy_changed),\n',
    "",
    WITHIN,
)
runtime.without(
    "a reload that fails is not the last",
    "            except Exception as error:  # files",
    "            except KeyError as error:  # files",
    WITHIN,
)

RELOAD = "integration/test_reload.py"
restart_only = door("gateproject/process/restart_only.py", "unit/gateproject/process/test_restart_only.py")
restart_only.without(
    "TLS that stays keeps its certificates",
    "        changed += CERTIFICATES\n",
    "        pass\n",
    f"{RELOAD}::test_without_certificates_in_the_new_file_tls_stays_until_a_restart",
)
runtime.without(
    "a key that was taken out opens the admin no more",
    "            setattr(settings, name, value)\n",
    "            pass\n",
    f"{RELOAD}::test_the_cookies_name_and_keys_change_for_the_admin_too",
)
rungate = door("gateproject/management/commands/rungate.py", f"{RELOAD}::test_a_hangup_before_gate_is_ready_does_not_end_it")
rungate.without("a hangup while gate starts ends nothing", "signal.signal(signal.SIGHUP, signal.SIG_IGN)", "pass")
locate = door("config/documents/key_positions.py", "unit/config/documents/test_key_positions.py", "unit/config/documents/test_parse.py")
locate.without("the elements of a list have places of their own", "here, index = (*base, index), index + 1", "here = (*base, index)")
types = door("foundation/values.py", "unit/foundation/test_values.py")
types.without("a part of an address above 255 is none", "25[0-5]|2[0-4][0-9]|1[0-9]{2}", "[12][0-9]{2}")
listener_state = door("proxy/listener/state.py", "unit/proxy/listener/test_state.py")
listener_state.without(
    "a changed certificate is shown",
    "before is not None and (before.pairs, before.min_version) == (pairs, options.tls_min_version):",
    "before is not None:",
    "unit/proxy/listener/test_state.py",
)
unchanged = door("config/routes/route_cache.py", "unit/config/test_source.py", "unit/config/routes/test_route_cache.py")
unchanged.without("a route follows the file it names", "        if next(watched_files(route), None) is None:\n", "        if True:\n")
unchanged.without("a route that is written differently is read anew", "marshal.dumps(written, 0)", "marshal.dumps(sorted(written), 0)")
source = door("config/source.py", "unit/config/test_source.py")
source.without("the file that will mend a refused configuration is watched", "{*self._named, *checked.files}", "{*self._named}")
proxy_state = door("proxy/state.py", "unit/proxy/test_state.py")
proxy_state.without("a changed setting reaches the routes that did not change", "previous._options.differs_in_routes_only(options)", "True")
route_table = door("authorize/policy/route_table.py", "unit/authorize/policy/test_route_table.py")
route_table.without("a new authority of all routes reaches the old ones", " if conditions == self._conditions else {}", "")
metrics_listener = door(
    "gateproject/process/metrics_listener.py", f"{RELOAD}::test_the_metrics_move_to_another_host_on_their_own_port_or_stay"
)
metrics_listener.without(
    "an address that can't be had leaves the metrics where they were",
    "            self._served = before, PlainListener(metrics, bind(before, SETTING))\n",
    "",
)
reload.without(
    "a refused configuration is told to Prometheus",
    "        metrics.configuration_refused(service)\n        return replace(self, problems=tuple(problems), refused",
    "        return replace(self, problems=tuple(problems), refused",
    f"{RELOAD}::test_policy_tests_that_fail_keep_the_last_good_configuration",
)
source.without(
    "a reload runs the policy tests",
    "[check for check in checks if not check.warns]",
    "[]",
    f"{RELOAD}::test_policy_tests_that_fail_keep_the_last_good_configuration",
)
route_table.without(
    "a replaced authority of all routes counts for the next request",
    " if conditions == self._conditions else {}",
    " if True else {}",
    f"{RELOAD}::test_a_replaced_authority_of_all_routes_judges_connections_that_are_open",
)
exposition = door("foundation/telemetry/exposition.py", "unit/foundation/telemetry/test_exposition.py")
exposition.without("beside the metrics there is nothing", '    if scope["path"] != "/metrics":\n', "    if False:\n")

DOORS = (
    reload,
    kept_by_envoy,
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
    exposition,
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
    places,
    yaml_reader,
    authenticate,
    online,
    weaknesses,
    templates,
    accepted,
    converted,
    pomerium,
    alpha,
)
