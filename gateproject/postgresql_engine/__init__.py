"""Django's database engine for PostgreSQL, as `ENGINE` names it: no wait for the server is endless."""
