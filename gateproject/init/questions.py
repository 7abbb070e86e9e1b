"""Questions of `gate init`: what a first configuration needs to know, and which settings follow from each answer.

An answer is a text, as a person types it.  Whether it can be used is for the checks of the configuration to say: no rule of theirs stands
here a second time.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from config.issuers import DEFAULT_URLS

Answers = Mapping[str, str]
EVERYONE, GROUP = "everyone", "group:"
AUTOCERT, FILES, BALANCER = "autocert", "files", "balancer"
CALLBACK = "/oauth2/callback"


class UnusableAnswer(ValueError):
    """Answer that no setting can be made of, to the question of this `key`; the message says what to write instead."""

    key = "who"


def _never(answers: Answers) -> str:
    return ""


def _always(answers: Answers) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Question:
    """Question under a name, which is its key in a file of answers.  `settings` are the keys of the problems that are its answer's.

    `default` is what an empty line means, "" for nothing; an optional question may stay without an answer.
    """

    key: str
    text: str
    settings: tuple[str, ...]
    hint: str = ""
    default: Callable[[Answers], str] = _never
    applies: Callable[[Answers], bool] = _always
    is_secret: bool = False
    is_optional: bool = False


def _port(answers: Answers) -> str:
    """What browsers write after a host; where something in front ends TLS it is on the usual port."""
    _, _, port = answers.get("address", ":443").rpartition(":")
    return "" if answers.get("certificates") == BALANCER or port in ("", "443") else f":{port}"


def _asks_for_issuer(answers: Answers) -> bool:
    return answers.get("provider") not in DEFAULT_URLS


def _has_files(answers: Answers) -> bool:
    return answers.get("certificates") == FILES


_OF_WHO = tuple(f"policy[0].{key}" for key in ("allowed_users", "allowed_domains", "allowed_groups", "allow_any_authenticated_user"))

QUESTIONS = (
    Question(
        "domain",
        "The domain of your applications",
        (),
        "Sign-in and applications get names below it: example.com gives authenticate.example.com.",
    ),
    Question(
        "certificates",
        "Where certificates come from: autocert, files or balancer",
        ("autocert", "insecure_server"),
        "autocert: Let's Encrypt, which must reach this machine on port 443 or 80. files: PEM files that you have. balancer: something in\n"
        "front of gate ends TLS.",
        default=lambda answers: AUTOCERT,
    ),
    Question(
        "certificate_files",
        "The file with the certificate and its chain, and that with its key",
        ("certificate_file", "certificate_key_file", "certificate"),
        "With a comma between them: fullchain.pem, privkey.pem.",
        applies=_has_files,
    ),
    Question(
        "trusted_proxies",
        "The addresses or networks of what is in front",
        ("trusted_proxies",),
        default=lambda answers: "127.0.0.1/32",
        applies=lambda answers: answers.get("certificates") == BALANCER,
    ),
    Question(
        "address",
        "The address to listen on",
        ("address",),
        "Port 443 usually needs a privilege; :8443 does not, but then browsers must write it.",
        default=lambda answers: ":8000" if answers.get("certificates") == BALANCER else ":443",
    ),
    Question(
        "sign_in_url",
        "The address of the sign-in, as browsers write it",
        ("authenticate_service_url",),
        default=lambda answers: f"https://authenticate.{answers['domain']}{_port(answers)}",
    ),
    Question(
        "provider",
        "The kind of your identity provider",
        ("idp_provider",),
        "oidc for any that speaks OpenID Connect (Keycloak, Authentik, Pocket ID, ...); else google, azure, okta, onelogin, github,\n"
        "gitlab or auth0.",
        default=lambda answers: "oidc",
    ),
    Question(
        "issuer",
        "Its issuer URL",
        ("idp_provider_url",),
        "/.well-known/openid-configuration lies below it.",
        applies=_asks_for_issuer,
    ),
    Question("client_id", "The client id that the provider gave you", ("idp_client_id",)),
    Question("client_secret", "The client secret", ("idp_client_secret",), is_secret=True),
    Question(
        "application",
        "The address of a first application, as browsers write it",
        ("policy[0].from",),
        default=lambda answers: f"https://app.{answers['domain']}{_port(answers)}",
    ),
    Question("upstream", "Where that application is now", ("policy[0].to",), "For example http://10.0.0.5:8080."),
    Question(
        "who",
        "Who may enter it",
        _OF_WHO,
        "E-mail addresses, @example.com for everybody with a verified address there, group:NAME, or everyone who can sign in; with commas\n"
        "between them.",
        default=lambda answers: f"@{answers['domain']}",
    ),
    Question(
        "admin",
        "Who enters the admin (e-mail addresses; nobody where you leave it empty)",
        ("admin_allowed_users",),
        is_optional=True,
    ),
)


def redirect_uri(answers: Answers) -> str:
    """Redirect URI that the provider must know."""
    return answers["sign_in_url"].rstrip("/") + CALLBACK


def settings_of(answers: Answers) -> dict[str, Any]:
    """Settings that follow from the answers so far.  Raises UnusableAnswer."""
    settings: dict[str, Any] = {}
    for question in QUESTIONS:
        if question.key in answers and question.applies(answers):
            try:
                settings |= dict(_settings_of_one(question.key, answers[question.key].strip()))
            except UnusableAnswer as error:
                error.key = question.key
                raise
    route = dict(_route(answers))
    return {**settings, "policy": [route]} if route else settings


def _settings_of_one(key: str, answer: str) -> Iterator[tuple[str, Any]]:
    match key:
        case "domain":
            if "/" in answer or ":" in answer or "." not in answer:
                raise UnusableAnswer("write the domain alone, as in example.com")
        case "certificates":
            if answer not in (AUTOCERT, FILES, BALANCER):
                raise UnusableAnswer(f"write {AUTOCERT}, {FILES} or {BALANCER}")
            if answer == AUTOCERT:
                yield "autocert", True
                yield "http_redirect_addr", ":80"
            elif answer == BALANCER:
                yield "insecure_server", True
        case "certificate_files":
            files = _listed(answer)
            if len(files) != 2:
                raise UnusableAnswer("write two files, as in fullchain.pem, privkey.pem")
            yield from zip(("certificate_file", "certificate_key_file"), files, strict=True)
        case "address":
            yield key, answer
        case "trusted_proxies":
            yield key, _listed(answer)
        case "admin":
            if answer:
                yield "admin_allowed_users", _listed(answer)
        case "sign_in_url":
            yield "authenticate_service_url", answer
        case "provider":
            yield "idp_provider", answer
        case "issuer":
            yield "idp_provider_url", answer
        case "client_id" | "client_secret":
            yield f"idp_{key}", answer


def _route(answers: Answers) -> Iterator[tuple[str, Any]]:
    if "application" in answers:
        yield "from", answers["application"].strip()
    if "upstream" in answers:
        yield "to", answers["upstream"].strip()
    if "who" in answers:
        yield from _who(_listed(answers["who"])).items()


def _who(entries: list[str]) -> dict[str, Any]:
    if EVERYONE in entries:
        if len(entries) > 1:
            raise UnusableAnswer(f"{EVERYONE} leaves nothing for the other entries to say: leave one of both out")
        return {"allow_any_authenticated_user": True}
    found: dict[str, list[str]] = {}
    for entry in entries:
        if entry.startswith(GROUP):
            found.setdefault("allowed_groups", []).append(entry.removeprefix(GROUP).strip())
        elif entry.startswith("@"):
            found.setdefault("allowed_domains", []).append(entry.removeprefix("@"))
        elif "@" in entry:
            found.setdefault("allowed_users", []).append(entry)
        else:
            raise UnusableAnswer(f"{entry!r} is neither an e-mail address nor @DOMAIN, {GROUP}NAME or {EVERYONE}")
    if not found:
        raise UnusableAnswer("say who may enter, else nobody can")
    return found


def _listed(answer: str) -> list[str]:
    return [entry for part in answer.split(",") if (entry := part.strip())]
