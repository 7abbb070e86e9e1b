from structlog.testing import capture_logs

from gateproject.process.reload import Reload


async def test_a_part_that_fails_keeps_no_other_from_hearing_and_is_told_of() -> None:
    heard, reload = [], Reload()

    def fails() -> None:
        raise OSError("no port")

    async def hears() -> None:
        heard.append("slow")

    with capture_logs() as logs:
        await reload.tell("quick", lambda: heard.append("quick"))
        await reload.tell("broken", fails)
        await reload.tell("slow", hears)
    assert heard == ["quick", "slow"]
    assert [problem.key for problem in reload.problems] == ["broken"]
    assert "OSError: no port" in reload.problems[0].message
    assert [(line["event"], line["part"]) for line in logs] == [("configuration reload incomplete", "broken")]
