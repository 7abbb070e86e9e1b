"""Django application with the management commands of a checkout: no operator needs them, and `gate` lists none of them."""
