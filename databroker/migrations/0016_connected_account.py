"""Accounts of users at third-party MCP servers."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('databroker', '0015_kind_of_session'),
    ]

    operations = [
        migrations.CreateModel(
            name='ConnectedAccount',
            fields=[
                ('id', models.CharField(max_length=320, primary_key=True, serialize=False)),
                ('resource', models.CharField(blank=True, max_length=1024, verbose_name='MCP server')),
                ('server_fingerprint', models.CharField(blank=True, max_length=64)),
                ('connected_at', models.DateTimeField(null=True)),
                ('refreshed_at', models.DateTimeField(null=True, verbose_name='last refreshed')),
                ('usable_until', models.DateTimeField(null=True)),
                ('user', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='connected_accounts', to='databroker.user')),
            ],
            options={
                'indexes': [models.Index(fields=['-connected_at', 'id'], name='account_by_connected_at')],
            },
        ),
    ]
