"""Admin tables hold no data that users of the admin must not read."""

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.db.models import BooleanField

from databroker.models import StoredLease

SECRETS = ("token", "claim", "secret", "cookie", "code")


def test_no_column_is_for_tokens_or_claims():
    models = [
        model for model in apps.get_app_config("databroker").get_models() if model is not StoredLease
    ]  # its token distinguishes holders
    # Whether a claim names a group is no claim.
    columns = [field.name for model in models for field in model._meta.get_fields() if not isinstance(field, BooleanField)]
    assert [column for column in columns if any(word in column for word in SECRETS)] == []


@pytest.mark.usefixtures("database")
def test_the_migrations_make_the_tables_of_the_models():
    call_command("makemigrations", "databroker", check=True, dry_run=True, verbosity=0)
    tables = connection.introspection.table_names()
    assert [model for model in apps.get_app_config("databroker").get_models() if model._meta.db_table not in tables] == []
