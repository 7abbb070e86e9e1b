"""The audit log has a table of its own, which no account's end takes along; what Django's log holds is copied into it."""

import django.utils.timezone
from django.db import migrations, models

AT_ONCE = 500


def copy(apps, schema_editor):
    old, new = apps.get_model("admin", "LogEntry"), apps.get_model("databroker", "AuditEntry")
    rows = old.objects.select_related("user", "content_type").order_by("id").iterator(chunk_size=AT_ONCE)
    batch = []
    for row in rows:
        batch.append(
            new(
                when=row.action_time,
                who=(row.user.email or row.user.first_name or row.user.username)[:255],
                account=row.user.username,
                action=row.change_message[:255],
                object_type=row.content_type.model if row.content_type else "",
                object_id=(row.object_id or "")[:320],
                object_words=row.object_repr[:255],
            )
        )
        if len(batch) == AT_ONCE:
            new.objects.bulk_create(batch)
            batch = []
    new.objects.bulk_create(batch)


class Migration(migrations.Migration):
    dependencies = [
        ("admin", "0003_logentry_add_action_flag_choices"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("databroker", "0004_indexes"),
    ]

    operations = [
        migrations.DeleteModel(name="AuditEntry"),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("when", models.DateTimeField(default=django.utils.timezone.now)),
                ("who", models.CharField(max_length=255)),
                ("account", models.CharField(blank=True, max_length=150)),
                ("address", models.CharField(blank=True, max_length=64)),
                ("action", models.CharField(max_length=255)),
                ("object_type", models.CharField(blank=True, max_length=64)),
                ("object_id", models.CharField(blank=True, max_length=320)),
                ("object_words", models.CharField(blank=True, max_length=255)),
            ],
            options={
                "verbose_name": "audit log entry",
                "verbose_name_plural": "audit log",
                "indexes": [
                    models.Index(fields=["when"], name="audit_by_when"),
                    models.Index(fields=["object_id", "when"], name="audit_by_object"),
                ],
            },
        ),
        migrations.RunPython(copy, migrations.RunPython.noop),
    ]
