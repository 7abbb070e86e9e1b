"""Metadata of the authorization server: a reader that nobody here wrote accepts it."""

import pytest
from authlib.oauth2 import rfc8414, rfc9207

from authenticate.oauth.server_metadata import server_metadata

ISSUER = "https://auth.example.com"


@pytest.mark.parametrize("accepts_documents", [False, True])
def test_metadata(accepts_documents: bool) -> None:
    document = server_metadata(ISSUER, accepts_documents=accepts_documents)
    rfc8414.AuthorizationServerMetadata(document).validate(metadata_classes=[rfc9207.AuthorizationServerMetadata])
    assert document["issuer"] == ISSUER
    assert document["client_id_metadata_document_supported"] is accepts_documents
