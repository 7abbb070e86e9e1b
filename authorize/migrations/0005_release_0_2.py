"""Table of the decision log of gate 0.2."""

from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='LoggedDecision',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('request_id', models.CharField(db_index=True, max_length=32, verbose_name='request id')),
                ('decided_at', models.DateTimeField(db_index=True, verbose_name='time')),
                ('user_id', models.CharField(blank=True, max_length=320, verbose_name='user id')),
                ('display_name', models.CharField(blank=True, max_length=255, verbose_name='user')),
                ('method', models.CharField(blank=True, max_length=32)),
                ('url', models.TextField(verbose_name='URL, without its query')),
                ('client_address', models.CharField(blank=True, max_length=64, verbose_name='client address')),
                ('mcp_method', models.CharField(blank=True, default='', max_length=128, verbose_name='MCP method')),
                ('mcp_name', models.CharField(blank=True, default='', max_length=255, verbose_name='MCP tool, prompt or resource')),
                ('route_id', models.CharField(blank=True, max_length=16)),
                ('route_name', models.CharField(blank=True, max_length=255)),
                ('outcome', models.CharField(max_length=24)),
                ('reason', models.CharField(blank=True, max_length=255)),
                ('shadow_outcome', models.CharField(blank=True, max_length=24, verbose_name='shadow outcome')),
                ('duration_seconds', models.FloatField()),
                ('data_version', models.BigIntegerField(null=True, verbose_name='data version')),
                ('configuration', models.CharField(blank=True, max_length=16)),
                ('snapshot', models.TextField()),
            ],
            options={
                'verbose_name': 'decision',
                'verbose_name_plural': 'decision log',
                'indexes': [models.Index(fields=['display_name', 'decided_at'], name='decision_by_name'), models.Index(fields=['user_id', 'decided_at'], name='decision_by_user'), models.Index(fields=['route_id', 'decided_at'], name='decision_by_route'), models.Index(fields=['outcome', 'decided_at'], name='decision_by_outcome')],
            },
        ),
    ]
