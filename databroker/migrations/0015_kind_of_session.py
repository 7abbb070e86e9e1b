"""Kind of a session, and the OAuth client, MCP server and scopes of an agent's."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('databroker', '0014_release_0_2'),
    ]

    operations = [
        migrations.AddField(
            model_name='session',
            name='client_id',
            field=models.CharField(blank=True, default='', max_length=512, verbose_name='OAuth client'),
        ),
        migrations.AddField(
            model_name='session',
            name='kind',
            field=models.CharField(choices=[('browser', 'browser'), ('agent', 'agent')], default='browser', max_length=16),
        ),
        migrations.AddField(
            model_name='session',
            name='resource',
            field=models.CharField(blank=True, default='', max_length=1024, verbose_name='MCP server'),
        ),
        migrations.AddField(
            model_name='session',
            name='scopes',
            field=models.TextField(blank=True, default=''),
        ),
    ]
