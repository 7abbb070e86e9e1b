"""Date formats of the admin: one form everywhere, with the time zone that all of them are in."""
