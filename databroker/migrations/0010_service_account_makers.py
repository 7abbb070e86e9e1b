"""A person's page asks for the service accounts that they made."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('databroker', '0009_service_account_permissions'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='serviceaccount',
            index=models.Index(fields=['created_by'], name='service_account_by_maker'),
        ),
    ]
