"""The tables of the relational view."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Group',
            fields=[
                ('id', models.CharField(max_length=320, primary_key=True, serialize=False)),
                ('name', models.CharField(blank=True, max_length=255)),
                ('email', models.CharField(blank=True, max_length=255, verbose_name='e-mail')),
            ],
        ),
        migrations.CreateModel(
            name='Membership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('group', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, to='databroker.group')),
            ],
        ),
        migrations.CreateModel(
            name='User',
            fields=[
                ('id', models.CharField(max_length=320, primary_key=True, serialize=False)),
                ('email', models.CharField(blank=True, max_length=255, verbose_name='e-mail')),
                ('name', models.CharField(blank=True, max_length=255)),
                ('last_sign_in', models.DateTimeField(blank=True, null=True)),
                ('groups', models.ManyToManyField(related_name='members', through='databroker.Membership', to='databroker.group')),
            ],
        ),
        migrations.CreateModel(
            name='Session',
            fields=[
                ('id', models.CharField(max_length=320, primary_key=True, serialize=False)),
                ('since', models.DateTimeField(null=True)),
                ('expires', models.DateTimeField(null=True)),
                ('client_address', models.CharField(blank=True, max_length=64)),
                ('user_agent', models.CharField(blank=True, max_length=512)),
                ('user', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='sessions', to='databroker.user')),
            ],
        ),
        migrations.AddField(
            model_name='membership',
            name='user',
            field=models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, to='databroker.user'),
        ),
        migrations.AddConstraint(
            model_name='membership',
            constraint=models.UniqueConstraint(fields=('user', 'group'), name='one_membership_a_user_and_group'),
        ),
    ]
