"""Which rows does a search in the admin find?  Asked so that 100,000 rows answer within a second: people and groups are found first."""

from django.db.models import Q, QuerySet
from django.utils.text import smart_split, unescape_string_literal

from databroker.models import Group, Membership, User

MOST_WORDS = 8  # each is one more look at every row


def sessions(found: QuerySet, text: str) -> QuerySet:
    """By person, route, the beginning of a client address, or the whole id."""
    for word in _words(text):
        people = User.objects.filter(_people(word)).values("pk")
        itself = Q(pk=word) | Q(user__id__icontains=word) | Q(client_address__istartswith=word) | Q(last_route__icontains=word)
        found = found.filter(itself | Q(user_id__in=people))
    return found


def users(found: QuerySet, text: str) -> QuerySet:
    """By person, or by a group they are in."""
    for word in _words(text):
        groups = Group.objects.filter(name__icontains=word).values("pk")
        members, of_one = (Membership.objects.filter(**which).values("user_id") for which in ({"group_id__in": groups}, {"group_id": word}))
        found = found.filter(_people(word) | Q(pk__icontains=word) | Q(pk__in=members) | Q(pk__in=of_one))
    return found


def _people(word: str) -> Q:
    return Q(email__icontains=word) | Q(name__icontains=word)


def _words(text: str) -> list[str]:
    """As the admin's own search reads them: blanks part words, quotes hold them together.  A NUL is in no text of a database."""
    words = (
        unescape_string_literal(word) if word[0] == word[-1] and word[0] in "\"'" and len(word) > 1 else word for word in smart_split(text)
    )
    return [word.replace("\x00", "") for word in words][:MOST_WORDS]
