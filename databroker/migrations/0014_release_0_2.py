"""Tables of gate 0.2: what was written before it is refused by gateproject/process/database_migrations.py."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


def order_by_bytes(apps, schema_editor):
    """Pages are in order of id, the same in every store; PostgreSQL would sort by the language of the database."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute('ALTER TABLE databroker_storedrecord ALTER COLUMN record_id TYPE text COLLATE "C"')


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='DirectoryRun',
            fields=[
                ('id', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('source', models.CharField(blank=True, max_length=255)),
                ('triggered_by', models.CharField(blank=True, max_length=64)),
                ('started_at', models.DateTimeField(db_index=True, null=True)),
                ('duration_seconds', models.FloatField(default=0.0)),
                ('users', models.IntegerField(default=0)),
                ('groups', models.IntegerField(default=0)),
                ('added', models.IntegerField(default=0)),
                ('changed', models.IntegerField(default=0)),
                ('removed', models.IntegerField(default=0)),
                ('requests', models.IntegerField(default=0)),
                ('error', models.TextField(blank=True)),
            ],
            options={
                'verbose_name': 'directory sync',
            },
        ),
        migrations.CreateModel(
            name='StoredLease',
            fields=[
                ('name', models.CharField(max_length=255, primary_key=True, serialize=False)),
                ('token', models.CharField(max_length=64)),
                ('expires_at', models.FloatField()),
            ],
        ),
        migrations.CreateModel(
            name='StoreState',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('version', models.BigIntegerField()),
                ('compacted_version', models.BigIntegerField()),
                ('epoch', models.CharField(max_length=128)),
                ('server_version', models.CharField(max_length=64)),
            ],
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('occurred_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('actor', models.CharField(max_length=255)),
                ('actor_kind', models.CharField(blank=True, default='', max_length=32)),
                ('actor_id', models.CharField(blank=True, max_length=320, verbose_name='id')),
                ('client_address', models.CharField(blank=True, max_length=64)),
                ('action', models.CharField(max_length=255)),
                ('object_type', models.CharField(blank=True, max_length=64)),
                ('object_id', models.CharField(blank=True, max_length=320)),
                ('object_repr', models.CharField(blank=True, max_length=255)),
            ],
            options={
                'verbose_name': 'audit log entry',
                'verbose_name_plural': 'audit log',
                'indexes': [models.Index(fields=['occurred_at'], name='audit_by_time'), models.Index(fields=['object_id', 'occurred_at'], name='audit_by_object')],
            },
        ),
        migrations.CreateModel(
            name='Group',
            fields=[
                ('id', models.CharField(max_length=320, primary_key=True, serialize=False)),
                ('name', models.CharField(blank=True, max_length=255)),
                ('email', models.CharField(blank=True, max_length=255, verbose_name='e-mail')),
                ('in_directory', models.BooleanField(default=True)),
                ('issuer', models.CharField(blank=True, default='', max_length=512)),
                ('from_claim', models.BooleanField(default=False)),
            ],
            options={
                'indexes': [models.Index(fields=['name', 'id'], name='group_by_name')],
            },
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('from_directory', models.BooleanField(default=True)),
                ('from_claim', models.BooleanField(default=False)),
                ('group', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, to='databroker.group')),
            ],
        ),
        migrations.CreateModel(
            name='ServiceAccount',
            fields=[
                ('id', models.CharField(max_length=63, primary_key=True, serialize=False, verbose_name='name')),
                ('groups', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(null=True)),
                ('created_by', models.CharField(blank=True, max_length=255)),
                ('rotated_at', models.DateTimeField(null=True, verbose_name='last new secret')),
                ('expires_at', models.DateTimeField(null=True)),
                ('permissions', models.TextField(blank=True, default='')),
                ('last_seen_at', models.DateTimeField(blank=True, null=True, verbose_name='last used')),
                ('last_host', models.CharField(blank=True, max_length=255)),
            ],
            options={
                'indexes': [models.Index(fields=['created_by'], name='service_account_by_creator')],
            },
        ),
        migrations.CreateModel(
            name='StoredRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('type', models.CharField(max_length=64)),
                ('record_id', models.TextField()),
                ('version', models.BigIntegerField(unique=True)),
                ('modified_at', models.FloatField()),
                ('expires_at', models.FloatField(db_index=True, null=True)),
                ('is_deleted', models.BooleanField(default=False)),
                ('data', models.TextField()),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('type', 'record_id'), name='one_stored_record_a_type_and_id')],
            },
        ),
        migrations.CreateModel(
            name='User',
            fields=[
                ('id', models.CharField(max_length=320, primary_key=True, serialize=False)),
                ('email', models.CharField(blank=True, max_length=255, verbose_name='e-mail')),
                ('unauthoritative_email', models.CharField(blank=True, default='', max_length=255)),
                ('name', models.CharField(blank=True, max_length=255)),
                ('last_sign_in_at', models.DateTimeField(blank=True, null=True, verbose_name='last sign-in')),
                ('groups', models.ManyToManyField(related_name='members', through='databroker.Membership', to='databroker.group')),
            ],
        ),
        migrations.CreateModel(
            name='Session',
            fields=[
                ('id', models.CharField(max_length=320, primary_key=True, serialize=False)),
                ('started_at', models.DateTimeField(null=True)),
                ('expires_at', models.DateTimeField(null=True)),
                ('client_address', models.CharField(blank=True, max_length=64)),
                ('user_agent', models.CharField(blank=True, max_length=512)),
                ('last_seen_at', models.DateTimeField(blank=True, null=True, verbose_name='last seen')),
                ('last_host', models.CharField(blank=True, max_length=255)),
                ('user', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='sessions', to='databroker.user')),
            ],
        ),
        migrations.AddField(
            model_name='membership',
            name='user',
            field=models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, to='databroker.user'),
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
            index=models.Index(fields=['last_sign_in_at'], name='user_by_last_sign_in'),
        ),
        migrations.AddIndex(
            model_name='session',
            index=models.Index(fields=['-started_at', 'id'], name='session_by_started_at'),
        ),
        migrations.AddIndex(
            model_name='session',
            index=models.Index(fields=['expires_at'], name='session_by_expires_at'),
        ),
        migrations.AddIndex(
            model_name='membership',
            index=models.Index(condition=models.Q(('from_claim', True)), fields=['group'], name='claimed_membership_by_group'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.UniqueConstraint(fields=('user', 'group'), name='one_membership_a_user_and_group'),
        ),
        migrations.RunPython(order_by_bytes, migrations.RunPython.noop),
    ]
