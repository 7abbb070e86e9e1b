"""Does the admin's navigation lead to every page that there is, once?"""

from collections import Counter

from gateproject.admin_site import SECTIONS, site


def test_every_page_of_the_admin_stands_in_one_section():
    assert Counter(name for _, names in SECTIONS for name in names) == Counter(model.__name__ for model in site._registry)
