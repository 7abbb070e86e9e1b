"""Reasons are read in the middle of sentences."""

from authorize.policy.reasons import Reason


def test_a_reason_fits_into_a_sentence_and_differs_from_every_other() -> None:
    texts = [reason.value for reason in Reason]
    assert len(set(texts)) == len(Reason.__members__)
    assert all(text[0].islower() or text.startswith("CORS") for text in texts)
    assert not any(text.endswith(".") for text in texts)
