"""Django database engine for PostgreSQL (`ENGINE`) with a deadline for each wait."""
