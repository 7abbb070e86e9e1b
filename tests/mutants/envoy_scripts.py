"""Defences in the scripts that Envoy runs: what of an answer reaches a client."""

from tests.mutants.mutant import script_door

answers = script_door(
    "proxy/envoy/resources/answers.lua",
    "contract/test_data_planes.py::test_an_upstream_sets_no_cookie_of_ours_and_the_configured_headers_win",
)
answers.without("no application sets our cookies", "if sets_ours(value) or", "if")
answers.without(
    "no application sets a cookie that its browser could not send back",
    " or has_c1_control(value)",
    "",
    "contract/test_data_planes.py::test_no_cookie_comes_or_goes_that_is_no_text",
)
answers.without(
    "what a connection names ends there",
    "if not (STATES[option] or ADDED[option]) and option:byte(1) ~= 58 then headers:remove(option) end",
    "",
)
answers.without(
    "only Envoy says that it failed",
    "mark and said:sub(1, #mark) == mark and said:sub(#mark + 1)",
    "said",
    "contract/test_data_planes.py::test_no_application_cuts_its_answer_so_that_the_rest_of_it_answers_another_request",
)
answers.without("no application removes a header of the operator", "(STATES[option] or ADDED[option])", "STATES[option]")

last_step = script_door("proxy/envoy/resources/last_step.lua", "contract/test_request_bodies.py::test_a_client_that_drips_is_cut_off")
last_step.without("of a body nothing goes on before it is whole", "    handle:body()\n")

DOORS = (answers, last_step)
