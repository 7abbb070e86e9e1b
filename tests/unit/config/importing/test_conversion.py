"""A part keeps the order of its notes, and its counts are those of the notes."""

from config.importing.conversion import Conversion, ConvertedSection, ForeignKey


def test_a_key_that_keeps_its_name_and_meaning_needs_no_note() -> None:
    part = ConvertedSection()
    part.set(ForeignKey("address", 3), "address", ":443")
    assert list(part.notes()) == []
    assert [(entry.key, entry.value) for entry in part.entries] == [("address", ":443")]


def test_renamed_key_reports_its_source() -> None:
    part = ConvertedSection()
    part.set(ForeignKey("client_id", 3), "idp_client_id", "abc")
    assert [(note.mark, note.text) for note in part.notes()] == [("from", "client_id (line 3)")]


def test_lost_and_changed_lines_are_counted_in_routes_too() -> None:
    converted, route = Conversion("x"), ConvertedSection()
    converted.top.mark_lost(ForeignKey("logo"), "there is none")
    route.set(ForeignKey("to"), "to", "http://a", check="look")
    route.mark_lost(ForeignKey("codec"), "there is none")
    converted.routes.append(route)
    assert (converted.lost, converted.to_check) == (2, 1)


def test_a_dropped_key_leaves_its_note() -> None:
    part = ConvertedSection()
    part.set(ForeignKey("users"), "allowed_users", ["a@b.org"])
    part.remove("allowed_users")
    assert not part.has("allowed_users")
    assert [note.text for note in part.notes()] == ["users"]
