import copy
import json
import pickle

from foundation.web.message import Message, Sentence, join_list, localize_value

GERMAN = {"no %(what)s": "kein %(what)s", "tea": "Tee", "%(some)s, and %(last)s": "%(some)s und %(last)s"}


def german(text: str) -> str:
    return GERMAN.get(text, text)


def test_message_is_english_without_accept_language() -> None:
    message = Message("no %(what)s", what=Message("tea"))
    assert message == "no tea"
    assert json.dumps([message]) == '["no tea"]'
    assert f"{message}." == "no tea."


def test_a_message_and_the_messages_in_it_are_put_into_a_language() -> None:
    assert Message("no %(what)s", what=Message("tea")).localize(german) == "kein Tee"
    assert Message("no %(what)s", what="100% tea").localize(german) == "kein 100% tea"
    assert localize_value("tea", german) == "tea"  # text of an operator
    assert localize_value(Message("tea"), german) == "Tee"


def test_a_message_without_parameters_may_hold_a_percent_sign() -> None:
    assert Message("a '%' that %s") == "a '%' that %s"
    assert Message("a '%' that %s").localize(german) == "a '%' that %s"


def test_a_sentence_begins_with_a_capital_in_every_language() -> None:
    sentence = Sentence("%(error)s.", error=Message("no %(what)s", what="x"))
    assert (sentence, sentence.localize(german)) == ("No x.", "Kein x.")
    assert Sentence("") == ""


def test_reasons_are_enumerated_as_a_language_does() -> None:
    one, two, tea = Message("one"), Message("two"), Message("tea")
    assert join_list([one]) == "one"
    assert join_list([one, two]) == "one, and two"
    assert join_list([one, two, tea]) == "one, two, and tea"
    assert join_list([one, two, tea]).localize(german) == "one, two und Tee"


def test_a_copy_still_knows_its_other_languages() -> None:
    sentence = Sentence("%(error)s", error=Message("tea"))
    for copied in (copy.deepcopy(sentence), pickle.loads(pickle.dumps(sentence))):
        assert (copied, copied.localize(german)) == ("Tea", "Tee")


def test_a_message_is_filled_later() -> None:
    template = Message("no %(what)s")
    assert template.with_params(what="tea") == "no tea"
    assert template.with_params(what="tea").localize(german) == "kein tea"
