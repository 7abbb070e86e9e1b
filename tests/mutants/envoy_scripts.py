"""Defences in the scripts that Envoy runs: what is carried without a question, and what of an answer reaches a client."""

from tests.mutants.mutant import script_door

_GRANTS = "integration/test_envoy_grants.py"
carried = script_door("proxy/envoy/grants/carried.lua", f"{_GRANTS}::test_what_is_in_any_doubt_is_judged")
carried.without("an odd target is asked about", "if not grant or not is_plain(target) then return end", "if not grant then return end")
carried.without("a segment that begins with a dot is asked about", ' or path:find("/.", 1, true)')
carried.without("two slashes are asked about", ' or path:find("//", 1, true)')
carried.without("a page of ours is asked about", "if OWN_WORDS[first] then return false end")
carried.without("a query that may hold a token is asked about", 'not query:lower():find("gate", 1, true) and ')
carried.without("a query key with an escape is asked about", """ and not ("&" .. query):find("&[^=&]*%%")""")
carried.without("methods that may change something are asked about", '(method ~= "GET" and method ~= "HEAD") or ')
carried.without("a header that nobody knows is asked about", "if not what or", "if")
carried.without("a header that is there twice is asked about", " or seen[name] == turn")
carried.without("a control byte in a header is asked about", r'if value:find("[%c\133]") then return DOUBTFUL end')
carried.without("what may be a stream of events is asked about", ' or (kind == OF_STREAMS and name == "accept")')
carried.without(
    "what follows a head is asked about",
    "handle:bodyChunks()() ~= nil or handle:trailers() ~= nil or ",
    "",
    f"{_GRANTS}::test_over_http_2_a_request_with_more_than_a_head_is_judged",
)
carried.without(
    "our cookies in other letters are asked about",
    "local folded = name:lower()",
    "local folded = name",
    f"{_GRANTS}::test_cookies_that_are_not_exactly_those_that_were_judged_are_judged",
)
carried.without(
    "without gate nothing is carried for longer than its lease",
    "moment >= grants64[0] or ",
    "",
    f"{_GRANTS}::test_a_gate_that_stands_still_lets_nobody_pass_for_longer_than_the_lease",
)
carried.without(
    "each connection that carries is written down",
    "if not is_noted(grant, peer.port) then return end",
    "",
    f"{_GRANTS}::test_a_download_that_envoy_carries_alone_is_cut_with_its_session",
)
same = script_door("proxy/envoy/grants/carried.lua", f"{_GRANTS}::test_what_was_judged_once_is_carried_alone_and_looks_the_same")
same.without("no upstream sees a header that it must not", "for position = 1, drops do headers:remove(dropped[position]) end")
same.without("no upstream sees a session", 'if cookies.rest then headers:replace("cookie", cookies.rest) else headers:remove("cookie") end')
same.without(
    "what gate wrote stands over what a client says",
    "for position = 1, #set, 2 do headers:replace(set[position], set[position + 1]) end",
    "",
    f"{_GRANTS}::test_nobody_marks_a_request_as_judged",
)
answers = script_door("proxy/envoy/resources/answers.lua", f"{_GRANTS}::test_answers_are_cleaned_as_where_gate_is_asked")
answers.without("no application sets our cookies", "if sets_ours(value) then", "if false then")
answers.without(
    "what a connection names ends there",
    "if not STATES[option] and option:byte(1) ~= 58 then headers:remove(option) end",
    "",
    "contract/test_data_planes.py::test_an_upstream_sets_no_cookie_of_ours_and_the_configured_headers_win",
)

last_step = script_door("proxy/envoy/resources/last_step.lua", "contract/test_request_bodies.py::test_a_client_that_drips_is_cut_off")
last_step.without("of a body nothing goes on before it is whole", "    handle:body()\n")

DOORS = (carried, same, answers, last_step)
