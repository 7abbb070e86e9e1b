"""Auth0 specifics: listings by page number, whose pages can shift during a sync."""

from tests.support.fake_api import as_json


async def test_a_listing_that_shifts_while_it_is_read_is_not_believed(staged) -> None:
    stage = await staged("auth0")
    shifted = as_json({"roles": [{"id": "rol_1", "name": "x"}], "start": 0, "limit": 100, "total": 2})
    stage.directory.fault = lambda request: shifted if request.path.endswith("/roles") else None
    assert "changed while" in (await stage.read()).error


async def test_many_roles_come_in_pages(staged) -> None:
    stage = await staged("auth0")
    numbered = [{"id": f"rol_{number}", "name": f"role {number}"} for number in range(250)]

    def fault(request):
        if request.path.endswith("/roles"):
            start = int(request.query["page"]) * 100
            return as_json({"roles": numbered[start : start + 100], "start": start, "limit": 100, "total": 250})
        return as_json({"users": []}) if request.path.endswith("/users") else None

    stage.directory.fault = fault
    run = await stage.read()
    assert (run.error, run.groups) == ("", 250)
