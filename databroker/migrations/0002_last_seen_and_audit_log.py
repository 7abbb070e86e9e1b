"""When and where sessions were last seen; the admin's log under a name of its own."""

import django.contrib.admin.models
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('admin', '0003_logentry_add_action_flag_choices'),
        ('databroker', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
            ],
            options={
                'verbose_name': 'audit log entry',
                'verbose_name_plural': 'audit log',
                'proxy': True,
                'indexes': [],
                'constraints': [],
            },
            bases=('admin.logentry',),
            managers=[
                ('objects', django.contrib.admin.models.LogEntryManager()),
            ],
        ),
        migrations.AddField(
            model_name='session',
            name='last_route',
            field=models.CharField(blank=True, max_length=255),
        ),
        migrations.AddField(
            model_name='session',
            name='last_seen',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
