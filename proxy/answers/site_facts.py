"""Site facts of a configuration: what it says on every page of ours."""

from config.options import Options
from foundation.web.site_facts import SiteFacts


def site_facts(options: Options, headers: tuple[tuple[bytes, bytes], ...] = ()) -> SiteFacts:
    return SiteFacts(options.support_contact or "", headers)
