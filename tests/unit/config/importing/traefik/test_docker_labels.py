"""Labels of Traefik as Compose files write them."""

from pathlib import Path

from config.importing.foreign_file import read
from config.importing.traefik.docker_labels import TraefikLabels, read_labels


def labels(directory: Path, text: str) -> TraefikLabels:
    (directory / "compose.yaml").write_text(f"services:\n{text}")
    return read_labels(read(directory / "compose.yaml"))


def test_a_list_a_map_and_those_of_a_swarm_are_read(tmp_path: Path) -> None:
    found = labels(
        tmp_path,
        "  a: {labels: ['traefik.http.routers.a.rule=Host(`a`)']}\n"
        "  b: {labels: {traefik.http.routers.b.rule: Host(`b`), traefik.http.services.b.loadbalancer.server.port: 80}}\n"
        "  c: {deploy: {labels: ['Traefik.HTTP.Routers.c.Rule=HostRegexp(`$$x`)']}}\n",
    )
    assert {name: router.options["rule"] for name, router in found.routers.items()} == {
        "a": "Host(`a`)",
        "b": "Host(`b`)",
        "c": "HostRegexp(`$x`)",
    }
    assert found.services["b"].options == {"loadbalancer.server.port": "80"}
    assert (found.services["b"].container, found.routers["a"].source.line) == ("b", 2)


def test_a_container_that_is_switched_off_has_none(tmp_path: Path) -> None:
    assert labels(tmp_path, "  a: {labels: {traefik.enable: false, traefik.http.routers.a.rule: Host(`a`)}}\n").routers == {}


def test_foreign_label_is_skipped(tmp_path: Path) -> None:
    found = labels(tmp_path, "  a:\n  b: {labels: [1, traefik.enable=true, traefik.tcp.routers.x.rule=HostSNI(`*`)]}\n  c: []\n")
    assert (found.routers, found.services, found.middlewares) == ({}, {}, {})


def test_variables_are_read_from_adjacent_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# x=1\nDOMAIN='example.com'\nexport NAME=wiki\nEMPTY=\n")
    text = "Host(`${NAME}.$DOMAIN`) || Host(`${OTHER:-a}.$$x`) || Host(`${UNKNOWN}`) || Host(`${EMPTY:-b}`)"
    found = labels(tmp_path, f"  a: {{labels: {{traefik.http.routers.a.rule: '{text}'}}}}\n")
    assert found.routers["a"].options["rule"] == "Host(`wiki.example.com`) || Host(`a.$x`) || Host(`${UNKNOWN}`) || Host(`b`)"
