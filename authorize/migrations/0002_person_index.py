"""The log is searched for whole addresses by an index."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('authorize', '0001_decision_log'),
    ]

    operations = [
        migrations.AlterField(
            model_name='loggeddecision',
            name='person',
            field=models.CharField(blank=True, db_index=True, max_length=255, verbose_name='shown as'),
        ),
    ]
