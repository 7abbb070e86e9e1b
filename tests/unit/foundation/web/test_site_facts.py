from foundation.web.site_facts import NO_SITE_FACTS, SiteFacts


def test_nobody_is_led_to_a_contact_that_there_is_not() -> None:
    assert NO_SITE_FACTS.help_links("app.example.com", "id1") == ()


def test_a_mail_says_what_it_is_about_and_a_page_is_opened_as_it_is() -> None:
    ((_, mail),) = SiteFacts("mailto:help@corp.com").help_links("app.example.com:8443", "id1")
    assert mail == "mailto:help@corp.com?subject=Help%20with%20app.example.com%3A8443%2C%20request%20id1"
    ((_, page),) = SiteFacts("https://help.corp.com/new?a=b").help_links("app.example.com", "id1")
    assert page == "https://help.corp.com/new?a=b"


def test_a_host_that_a_client_made_up_adds_nothing_to_a_mail() -> None:
    ((_, mail),) = SiteFacts("mailto:help@corp.com").help_links("a&cc=evil@example.com\r\nBcc: x", "id1")
    assert mail.count("?") == 1
    assert not set("&\r\n ") & set(mail)
