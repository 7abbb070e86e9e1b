"""Translatable messages: English text that a page translates into the language of its reader."""

from collections.abc import Callable
from typing import Any, Self


class Message(str):
    """Translatable text; as a `str` it is English. Catalogs contain its `msgid`, which has `params` as %(name)s.

    Logs, JSON and other machine-readable output use it as a plain string. Slicing, joining and formatting return a plain `str`, which
    stays English on every page; to combine messages, pass one as a parameter of another.
    """

    __slots__ = ("msgid", "params")
    msgid: str
    params: dict[str, Any]

    def __new__(cls, msgid: str, **params: Any) -> Self:
        message = super().__new__(cls, cls._finalize(msgid % params if params else msgid))
        message.msgid, message.params = msgid, params
        return message

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.msgid, self.params)

    def localize(self, translate: Callable[[str], str]) -> str:
        """Return the text translated by a catalog function, including parameters that are messages."""
        text = translate(self.msgid)
        return self._finalize(
            text % {name: localize_value(value, translate) for name, value in self.params.items()} if self.params else text
        )

    def with_params(self, **params: Any) -> Self:
        """Return the same message with these parameters."""
        return type(self)(self.msgid, **params)

    @staticmethod
    def _finalize(text: str) -> str:
        return text


class Sentence(Message):
    """Message whose first letter is capitalized."""

    __slots__ = ()

    @staticmethod
    def _finalize(text: str) -> str:
        return f"{text[:1].upper()}{text[1:]}"


def localize_value(value: Any, translate: Callable[[str], str]) -> Any:
    """Translate a message; any other value, such as text of the operator, is returned unchanged."""
    return value.localize(translate) if isinstance(value, Message) else value


def join_list(messages: list[Message]) -> Message:
    """Join messages as in `one, another, and a third`."""
    first, *more = messages
    if not more:
        return first
    for each in more[:-1]:
        first = Message("%(some)s, %(one)s", some=first, one=each)
    return Message("%(some)s, and %(last)s", some=first, last=more[-1])


def _rebuild(kind: type[Message], msgid: str, params: dict[str, Any]) -> Message:
    return kind(msgid, **params)
