"""Messages: texts of ours for people, which are English until a page puts them into its reader's language."""

from collections.abc import Callable
from typing import Any, Self


class Message(str):
    """Text for people, in English as a `str`; catalogues know it by `msgid`, which names its `params` as %(name)s.

    Whoever writes logs, JSON or anything else for programs takes it as the text that it is.  What is cut, joined or formatted is a
    plain `str` again and stays English on every page: a message in another one is a parameter of that.
    """

    __slots__ = ("msgid", "params")
    msgid: str
    params: dict[str, Any]

    def __new__(cls, msgid: str, **params: Any) -> Self:
        made = super().__new__(cls, cls._finished(msgid % params if params else msgid))
        made.msgid, made.params = msgid, params
        return made

    def __reduce__(self) -> Any:
        return _again, (type(self), self.msgid, self.params)

    def by(self, translate: Callable[[str], str]) -> str:
        """The text by a catalogue, and its parameters that are messages, too."""
        said = translate(self.msgid)
        return self._finished(said % {name: translated(value, translate) for name, value in self.params.items()} if self.params else said)

    def filled(self, **params: Any) -> Self:
        """The same with these parameters."""
        return type(self)(self.msgid, **params)

    @staticmethod
    def _finished(text: str) -> str:
        return text


class Sentence(Message):
    """Message that begins with a capital, whatever it begins with."""

    __slots__ = ()

    @staticmethod
    def _finished(text: str) -> str:
        return f"{text[:1].upper()}{text[1:]}"


def translated(said: Any, translate: Callable[[str], str]) -> Any:
    """Message by a catalogue; anything else, such as words of the operator, as it is."""
    return said.by(translate) if isinstance(said, Message) else said


def enumerated(said: list[Message]) -> Message:
    """`one, another, and a third`."""
    first, *more = said
    if not more:
        return first
    for each in more[:-1]:
        first = Message("%(some)s, %(one)s", some=first, one=each)
    return Message("%(some)s, and %(last)s", some=first, last=more[-1])


def _again(kind: type[Message], msgid: str, params: dict[str, Any]) -> Message:
    return kind(msgid, **params)
