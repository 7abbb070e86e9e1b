"""Site information of a configuration, for all of gate's pages."""

import base64

from config.fields import image
from config.options import Options
from config.settings.brand_settings import BrandSettings
from foundation.web.brand import NO_BRAND, Brand, SiteInfo


def build_site_info(options: Options, headers: tuple[tuple[bytes, bytes], ...] = ()) -> SiteInfo:
    return SiteInfo(options.support_contact or "", headers, _brand(options.brand))


def _brand(settings: BrandSettings | None) -> Brand:
    if settings is None:
        return NO_BRAND
    logo = ""
    if settings.logo is not None:
        content = settings.logo.content
        logo = f"data:{image.detect_image_type(content)};base64,{base64.b64encode(content).decode()}"
    return Brand.from_options(settings.name, logo, settings.accent)
