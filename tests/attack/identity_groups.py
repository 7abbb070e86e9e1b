"""B33: does a rule that names a group by its id admit members of another group of that name?"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_pushed import HOSTS, PROVIDERS, RULES, WAYS, PushedStage, forget, membership, pushed_stage
from tests.attack.identity_stage import Stage, new_user
from tests.attack.run import ACCEPTED, REFUSED, Outcome, expect

OTHER = "the-id-of-another-group"
# Records of the group that the rule names, while mallory is in another.
UNKNOWN, KNOWN, DELETED = "never was", "is there", "was deleted"
NOT_PRESENTED = "\u00ad\u200b\u200d\u2060\ufeff\u3164\u115f"
LOOKALIKES = str.maketrans("aeocpxAEOPCBgiS012", "аеосрхАЕОРСВɡіЅОІ２")


def spellings(rule: str) -> Iterator[str]:
    """Names of another group, the rule's very words first."""
    yield rule
    found = [rule.lower(), rule.upper(), rule.title(), rule.swapcase(), rule.casefold(), rule.translate(LOOKALIKES)]
    found += ["".join(chr(ord(letter) + 0xFEE0) if "!" <= letter <= "~" else letter for letter in rule)]  # full width
    found += [f"{rule}{end}" for end in (" ", "  ", ".", "*", "%", "%00", "%20", "\\n", ";", ",", "/", "/*", "#", "?", "\u0301")]
    found += [f"{begin}{rule}" for begin in (" ", "/", "./", "*", "^", "\\", "id:", "group:", "oidc/", "okta/", "cn=", "!", "~", "-", "0")]
    found += [f"{a}{rule}{b}" for a, b in ('""', "''", "[]", "()", "{}", "<>", "^$", "//", "**", "%%", "  ", ("nobody,", ",nobody"))]
    found += [f'["{rule}"]', f"{rule},{rule}", f"{rule} {rule}", f"nobody;{rule}", f"{rule}|nobody", f"(?i){rule}", f"regex:{rule}"]
    found += [rule[:-1], rule[1:], rule[0], "*", ".*", "%", "?" * len(rule), "nobody", "null", "true"]
    found += [f"{rule[:1]}{hidden}{rule[1:]}" for hidden in NOT_PRESENTED] + [f"{rule}{hidden}" for hidden in NOT_PRESENTED]
    found += ["".join(f"%{ord(letter):02x}" for letter in rule), "".join(f"&#{ord(letter)};" for letter in rule)]
    yield from dict.fromkeys(each for each in found if each != rule)


@identity_attack("B33", "a group by the name that is another's id", sample=25, minutes=2)
def named(_: Stage) -> Iterator[Attempt]:
    for provider, rule, known in product(PROVIDERS, RULES, (UNKNOWN, KNOWN, DELETED)):
        for name in spellings(rule):
            # The one exception is a decision: where names count, what is no known id is a name.
            opens = provider == "oidc" and name == rule and known != KNOWN
            yield f"{provider}: {rule!r}, which {known}, and another named {name!r}", partial(_named, provider, rule, known, name, opens)


@identity_attack("B33", "ids that only look like another", sample=15, minutes=0.5)
def spelled(_: Stage) -> Iterator[Attempt]:
    for provider, rule in product(PROVIDERS, RULES):
        for id in spellings(rule):
            if id != rule:
                yield f"{provider}: {rule!r} and {id!r}", partial(_spelled, provider, rule, id)


@identity_attack("B33", "groups that change, and people named like groups", sample=12)
def changing(_: Stage) -> Iterator[Attempt]:
    for provider, rule in product(PROVIDERS, RULES):
        for label, story in STORIES.items():
            yield f"{provider}: {rule!r} {label}", partial(_received, story, provider, rule)


def _named(provider: str, rule: str, known: str, name: str, opens: bool) -> Outcome:
    stage = pushed_stage(provider)
    meant = stage.add_group(rule, "As it is called") if known != UNKNOWN else ""
    if known == DELETED:
        stage.push("DELETE", f"Groups/{meant}")
    with membership(stage, OTHER, name) as is_taken:
        outcome = evaluated(stage, rule, opens and is_taken)
    if known == KNOWN:
        stage.push("DELETE", f"Groups/{meant}")
    return outcome


def _spelled(provider: str, rule: str, id: str) -> Outcome:
    stage = pushed_stage(provider)
    with membership(stage, id, "Harmless"):
        return evaluated(stage, rule, False)


def evaluated(stage: PushedStage, rule: str, opens: bool) -> Outcome:
    found = {way: stage.lets_in(HOSTS[rule], way) for way in WAYS}
    expect(found == dict.fromkeys(WAYS, opens), f"lets in by {[way for way, is_in in found.items() if is_in]}, which is not right")
    expect(stage.is_alive(), "gate has died")
    return ACCEPTED if opens else REFUSED


def _received(story: Callable[[PushedStage, str], Outcome], provider: str, rule: str) -> Outcome:
    stage = pushed_stage(provider)
    try:
        return story(stage, rule)
    finally:
        for group in stage.push("GET", "Groups?count=100")["Resources"]:
            stage.push("DELETE", f"Groups/{group['id']}")
        stage.until_proven(stage.user, stage.mallory, is_in=False)


def _renamed(stage: PushedStage, rule: str) -> Outcome:
    """The group of the rule is there; another is renamed to its id."""
    stage.add_group(rule, "As it is called")
    group = stage.add_group(OTHER, "Harmless", stage.user)
    stage.push("PATCH", f"Groups/{group}", {"Operations": [{"op": "replace", "path": "displayName", "value": rule}]})
    stage.until_proven(stage.user, stage.mallory)
    return evaluated(stage, rule, False)


def _made_again(stage: PushedStage, rule: str) -> Outcome:
    """Deleted, and made again with its name under another id: who is in that one was never meant."""
    group = stage.add_group(rule, "As it is called", stage.user)
    control = stage.until_proven(stage.user, stage.mallory)
    evaluated(stage, rule, True)
    forget(stage, group, control)
    stage.add_group(OTHER, "As it is called", stage.user)
    stage.until_proven(stage.user, stage.mallory)
    return evaluated(stage, rule, False)


def _swapped(stage: PushedStage, rule: str) -> Outcome:
    stage.add_group(rule, OTHER)
    stage.add_group(OTHER, rule, stage.user)
    stage.until_proven(stage.user, stage.mallory)
    return evaluated(stage, rule, False)


def _named_after_itself(stage: PushedStage, rule: str) -> Outcome:
    """Members of the intended group are admitted, regardless of the names of groups."""
    stage.add_group(OTHER, rule)
    stage.add_group(rule, "nobody", stage.user)
    stage.until_proven(stage.user, stage.mallory)
    return evaluated(stage, rule, True)


def _left(stage: PushedStage, rule: str) -> Outcome:
    group = stage.add_group(rule, rule, stage.user)
    control = stage.until_proven(stage.user, stage.mallory)
    evaluated(stage, rule, True)
    stage.push("PATCH", f"Groups/{group}", {"Operations": [{"op": "remove", "path": f'members[value eq "{stage.user}"]'}]})
    stage.push("DELETE", f"Groups/{control}")
    stage.until_proven(stage.user, stage.mallory, is_in=False)
    return evaluated(stage, rule, False)


def _inside(stage: PushedStage, rule: str) -> Outcome:
    """Groups in groups are not resolved, in either direction."""
    inner = stage.add_group(OTHER, "Inner", stage.user)
    outer = stage.add_group(rule, "Outer", inner)
    stage.push("PATCH", f"Groups/{inner}", {"Operations": [{"op": "add", "path": "members", "value": [{"value": outer}]}]})
    stage.until_proven(stage.user, stage.mallory)
    return evaluated(stage, rule, False)


def _of_the_same_id(stage: PushedStage, rule: str) -> Outcome:
    stage.add_group(rule, "As it is called")
    expect(not stage.add_group(rule, "Another", stage.user), "two groups have the same id")
    group = stage.add_group(OTHER, "Harmless", stage.user)
    renamed = stage.push("PATCH", f"Groups/{group}", {"Operations": [{"op": "replace", "path": "externalId", "value": rule}]})
    expect(renamed is None, "another group has taken over an id that is in use")
    stage.until_proven(stage.user, stage.mallory)
    return evaluated(stage, rule, False)


def _of_a_user(stage: PushedStage, rule: str) -> Outcome:
    """The names of a user, and groups in the ID token while the directory is the only source, grant nothing."""
    sub = new_user(name=rule, email=f"{new_user()}@corp.example", email_verified=True, groups=[rule], roles=[rule], group=rule)
    user = stage.add_user(sub, displayName=rule, nickName=rule, title=rule, groups=[{"value": rule}], roles=[{"value": rule}])
    browser = stage.browser()
    stage.sign_in(browser, sub, HOSTS[rule], WAYS[0])
    stage.until_proven(user, browser)
    expect(not any(stage.lets_in(HOSTS[rule], way, browser) for way in WAYS), "a user in no group is admitted")
    stage.push("DELETE", f"Users/{user}")
    return REFUSED


STORIES: dict[str, Callable[[PushedStage, str], Outcome]] = {
    "and another that is renamed to it": _renamed,
    "made again under another id": _made_again,
    "and another, with their names exchanged": _swapped,
    "is not what it is called": _named_after_itself,
    "and a member that leaves it": _left,
    "in another, and another in it": _inside,
    "and another that takes its id": _of_the_same_id,
    "as what a person says of themselves": _of_a_user,
}
