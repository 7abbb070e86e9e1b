from urllib.parse import urlsplit

from authenticate.page_paths import SIGN_IN_PATH
from tests.support.authenticate_site import HOST, ORIGIN, Site


async def test_sign_in_url_of_page_is_signed(site: Site) -> None:
    url = site.service.browser_redirects.sign_in_url("/.gate/admin/")
    assert url.startswith(f"{ORIGIN}{SIGN_IN_PATH}?")
    assert site.service.signer.verify(url, site.clock()) == {"gate_redirect_uri": f"{ORIGIN}/.gate/admin/"}
    assert urlsplit(url).netloc == HOST
