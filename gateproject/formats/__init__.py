"""How the admin writes moments: one form everywhere, with the time zone that all of them are in."""
