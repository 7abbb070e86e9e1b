"""PyPI `moto` as Amazon Cognito: user pools, their API, keys and tokens. It has no hosted pages, so a browser can't sign in there.

with Cognito() as cognito:
    pool = cognito.new_pool()
    pool.add("alice", groups=["engineering"])
    tokens = pool.tokens_of("alice")  # {"IdToken": ..., "AccessToken": ...}
"""

from dataclasses import dataclass
from typing import Any, Self

import httpx

from tests.support.children import Child, free_port

REGION = "eu-west-1"
PASSWORD = "Passw0rd!of-tests"
# moto checks only the region and the service.
CREDENTIALS = f"AWS4-HMAC-SHA256 Credential=tests/20260101/{REGION}/cognito-idp/aws4_request, SignedHeaders=host, Signature=none"


class Cognito:
    def __init__(self) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.child = Child.python("-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port))
        self._client = httpx.Client(base_url=self.url, headers={"Authorization": CREDENTIALS}, trust_env=False, timeout=20)
        self.child.wait_for(self._answers, "moto answers")

    def _answers(self) -> bool:
        try:
            return self._client.get("/moto-api/").is_success
        except httpx.TransportError:
            return False

    def ask(self, operation: str, **parameters: Any) -> dict[str, Any]:
        headers = {"X-Amz-Target": f"AWSCognitoIdentityProviderService.{operation}", "Content-Type": "application/x-amz-json-1.1"}
        return dict(self._client.post("/", json=parameters, headers=headers).raise_for_status().json())

    def new_pool(self) -> "Pool":
        pool = self.ask("CreateUserPool", PoolName="corp")["UserPool"]["Id"]
        flows = ["ALLOW_ADMIN_USER_PASSWORD_AUTH"]
        client = self.ask("CreateUserPoolClient", UserPoolId=pool, ClientName="gate", ExplicitAuthFlows=flows)
        return Pool(self, pool, client["UserPoolClient"]["ClientId"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self.child.__exit__()


@dataclass(frozen=True)
class Pool:
    cognito: Cognito
    id: str
    client_id: str

    @property
    def issuer(self) -> str:
        """The issuer in its tokens and discovery document, independent of moto's address."""
        return f"https://cognito-idp.{REGION}.amazonaws.com/{self.id}"

    @property
    def url(self) -> str:
        return f"{self.cognito.url}/{self.id}"

    def add(self, name: str, groups: list[str]) -> None:
        ids = {"UserPoolId": self.id, "Username": name}
        self.cognito.ask("AdminCreateUser", **ids, UserAttributes=[{"Name": "email", "Value": f"{name}@corp.example"}])
        self.cognito.ask("AdminSetUserPassword", **ids, Password=PASSWORD, Permanent=True)
        for group in groups:
            self.cognito.ask("CreateGroup", UserPoolId=self.id, GroupName=group)
            self.cognito.ask("AdminAddUserToGroup", **ids, GroupName=group)

    def tokens_of(self, name: str) -> dict[str, str]:
        credentials = {"USERNAME": name, "PASSWORD": PASSWORD}
        parameters = {
            "UserPoolId": self.id,
            "ClientId": self.client_id,
            "AuthFlow": "ADMIN_USER_PASSWORD_AUTH",
            "AuthParameters": credentials,
        }
        return dict(self.cognito.ask("AdminInitiateAuth", **parameters)["AuthenticationResult"])
