"""Questions of `gate init`: the values that an initial configuration needs, and the settings that follow from each answer.

An answer is text as typed by the user. The configuration's own checks validate it, so no rule is duplicated here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from config.issuers import DEFAULT_URLS

Answers = Mapping[str, str]
EVERYONE, GROUP = "everyone", "group:"
AUTOCERT, FILES, BALANCER = "autocert", "files", "balancer"
CALLBACK = "/oauth2/callback"


class InvalidAnswer(ValueError):
    """Answer to the question `key` that cannot become a setting; the message says what to enter instead."""

    key = "who"


def _never(answers: Answers) -> str:
    return ""


def _always(answers: Answers) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Question:
    """Question; its name is its key in a file of answers. `settings` are the keys whose problems belong to this answer.

    `default` applies to an empty line ("" for none); an optional question may stay unanswered.
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
    """Return the port as browsers write it after a host; empty if a proxy terminates TLS on the default port."""
    _, _, port = answers.get("address", ":443").rpartition(":")
    return "" if answers.get("certificates") == BALANCER or port in ("", "443") else f":{port}"


def _needs_issuer(answers: Answers) -> bool:
    return answers.get("provider") not in DEFAULT_URLS


def _has_files(answers: Answers) -> bool:
    return answers.get("certificates") == FILES


_USER_SETTINGS = tuple(f"policy[0].{key}" for key in ("allowed_users", "allowed_domains", "allowed_groups", "allow_any_authenticated_user"))

QUESTIONS = (
    Question(
        "domain",
        "Domain of your applications",
        (),
        "Sign-in and applications use subdomains of it: example.com gives authenticate.example.com.",
    ),
    Question(
        "certificates",
        "Source of certificates: autocert, files or balancer",
        ("autocert", "insecure_server"),
        "autocert: Let's Encrypt, which must reach this machine on port 443 or 80. files: existing "
        "PEM files. balancer: a proxy in\nfront of gate terminates TLS.",
        default=lambda answers: AUTOCERT,
    ),
    Question(
        "certificate_files",
        "Files with the certificate chain and its key",
        ("certificate_file", "certificate_key_file", "certificate"),
        "Separated by a comma: fullchain.pem, privkey.pem.",
        applies=_has_files,
    ),
    Question(
        "trusted_proxies",
        "Addresses or networks of the proxy in front",
        ("trusted_proxies",),
        default=lambda answers: "127.0.0.1/32",
        applies=lambda answers: answers.get("certificates") == BALANCER,
    ),
    Question(
        "address",
        "Address to listen on",
        ("address",),
        "Port 443 usually needs a privilege; :8443 does not, but is then part of every URL.",
        default=lambda answers: ":8000" if answers.get("certificates") == BALANCER else ":443",
    ),
    Question(
        "sign_in_url",
        "URL of the sign-in host",
        ("authenticate_service_url",),
        default=lambda answers: f"https://authenticate.{answers['domain']}{_port(answers)}",
    ),
    Question(
        "provider",
        "Kind of identity provider",
        ("idp_provider",),
        "oidc for any OpenID Connect provider (Keycloak, authentik, Pocket ID, ...); else "
        "google, azure, okta, onelogin, github,\ngitlab or auth0.",
        default=lambda answers: "oidc",
    ),
    Question(
        "issuer",
        "Issuer URL",
        ("idp_provider_url",),
        "The URL without /.well-known/openid-configuration.",
        applies=_needs_issuer,
    ),
    Question("client_id", "Client id", ("idp_client_id",)),
    Question("client_secret", "Client secret", ("idp_client_secret",), is_secret=True),
    Question(
        "application",
        "External URL of a first application",
        ("policy[0].from",),
        default=lambda answers: f"https://app.{answers['domain']}{_port(answers)}",
    ),
    Question("upstream", "URL of its upstream", ("policy[0].to",), "For example http://10.0.0.5:8080."),
    Question(
        "who",
        "Users to allow",
        _USER_SETTINGS,
        "E-mail addresses, @example.com for all users with a verified address there, "
        "group:NAME, or everyone who can sign in; separated\nby commas.",
        default=lambda answers: f"@{answers['domain']}",
    ),
    Question(
        "admin",
        "Administrators (e-mail addresses; empty for none)",
        ("admin_allowed_users",),
        is_optional=True,
    ),
)


def redirect_uri(answers: Answers) -> str:
    """Return the redirect URI to register with the provider."""
    return answers["sign_in_url"].rstrip("/") + CALLBACK


def build_settings(answers: Answers) -> dict[str, Any]:
    """Return the settings for the answers so far. Raise InvalidAnswer."""
    settings: dict[str, Any] = {}
    for question in QUESTIONS:
        if question.key in answers and question.applies(answers):
            try:
                settings |= dict(_settings_of_one(question.key, answers[question.key].strip()))
            except InvalidAnswer as error:
                error.key = question.key
                raise
    route = dict(_route(answers))
    return {**settings, "policy": [route]} if route else settings


def _settings_of_one(key: str, answer: str) -> Iterator[tuple[str, Any]]:
    match key:
        case "domain":
            if "/" in answer or ":" in answer or "." not in answer:
                raise InvalidAnswer("write the domain only, with a dot, as in example.com")
        case "certificates":
            if answer not in (AUTOCERT, FILES, BALANCER):
                raise InvalidAnswer(f"write {AUTOCERT}, {FILES} or {BALANCER}")
            if answer == AUTOCERT:
                yield "autocert", True
                yield "http_redirect_addr", ":80"
            elif answer == BALANCER:
                yield "insecure_server", True
        case "certificate_files":
            files = _listed(answer)
            if len(files) != 2:
                raise InvalidAnswer("write two files, as in fullchain.pem, privkey.pem")
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
        yield from _allowed_users(_listed(answers["who"])).items()


def _allowed_users(entries: list[str]) -> dict[str, Any]:
    if EVERYONE in entries:
        if len(entries) > 1:
            raise InvalidAnswer(f"{EVERYONE} cannot be combined with other entries")
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
            raise InvalidAnswer(f"{entry!r} is neither an e-mail address nor @DOMAIN, {GROUP}NAME or {EVERYONE}")
    if not found:
        raise InvalidAnswer("list at least one user, group or domain")
    return found


def _listed(answer: str) -> list[str]:
    return [entry for part in answer.split(",") if (entry := part.strip())]
