"""Indexes for what the admin's lists are sorted by."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('databroker', '0003_stored_records'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='group',
            index=models.Index(fields=['name', 'id'], name='group_by_name'),
        ),
        migrations.AddIndex(
            model_name='session',
            index=models.Index(fields=['-since', 'id'], name='session_by_since'),
        ),
        migrations.AddIndex(
            model_name='session',
            index=models.Index(fields=['expires'], name='session_by_expires'),
        ),
        migrations.AddIndex(
            model_name='user',
            index=models.Index(fields=['email', 'id'], name='user_by_email'),
        ),
        migrations.AddIndex(
            model_name='user',
            index=models.Index(fields=['name'], name='user_by_name'),
        ),
        migrations.AddIndex(
            model_name='user',
            index=models.Index(fields=['last_sign_in'], name='user_by_last_sign_in'),
        ),
    ]
