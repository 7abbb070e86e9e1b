"""Addresses that a provider says and may not tell stand apart; the tables are filled anew at every start."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('databroker', '0010_service_account_makers'),
    ]

    operations = [
        migrations.AddField(
            model_name='user',
            name='untold_email',
            field=models.CharField(blank=True, db_default='', default='', max_length=255),
        ),
    ]
