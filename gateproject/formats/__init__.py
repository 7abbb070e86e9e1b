"""Date formats of the admin: one format everywhere, with the time zone."""
