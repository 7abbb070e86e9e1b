"""Tests assert facts (key, status, log event, the named object) and quote no sentence, so that a text changes in one place."""

import pytest

from authorize.policy.reasons import Reason
from tests.support.children import ROOT
from tests.support.quoted_texts import MIN_TERMS, quotes_in

# Product texts that tests quote because each is a fact: client applications read them, or users copy them.
FACTS = {
    "assigned the user to another subject": "action of the audit log, which is stored and searched for",
    "default-src 'none'; sandbox; frame-ancestors 'none'": "response header",
    "oidc, google, azure, okta, onelogin, github, gitlab, auth0": "values of a setting",
    "`head -c32 /dev/urandom | base64`": "command to copy",
    "contains a path, but it should be set using the path field instead": "wording of the specification",
}
# Mutants name source text; the other folder is third-party code.
EXEMPT = {"mutants", "node_modules"}


def test_no_test_quotes_a_sentence_of_the_product() -> None:
    files = [file for file in (ROOT / "tests").rglob("*.py") if EXEMPT.isdisjoint(file.relative_to(ROOT).parts)]
    found = [
        f"{file.relative_to(ROOT)}:{line}: {quoted}"
        for file in sorted(files)
        for line, quoted in quotes_in(file.read_text())
        if not any(quoted in fact for fact in FACTS)
    ]
    assert found == [], "assert the key, status, class, named thing or the Message itself"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('assert "WORDS listed" in page', [1]),
        ('x = 1\nmatch = r"see:\\ WORDS"', [2]),
        ('assert f"{name}: WORDS {x}"', [1]),
        ('assert "FEWER" in page', []),
        ('assert "five words of another text" in page', []),
        ('def test():\n    """WORDS listed"""', []),
        ('assert "sign-in failed at the identity provider" in events', []),
    ],
)
def test_quote_is_five_consecutive_terms_except_log_events(source: str, lines: list[int]) -> None:
    texts = Reason.EMAIL_NOT_LISTED.value.split()[:MIN_TERMS]
    source = source.replace("WORDS", " ".join(texts)).replace("FEWER", " ".join(texts[1:]))
    assert list(quotes_in(source)) == [(line, " ".join(texts)) for line in lines]
