"""Django application with the management commands for development, which `gate` does not list."""
