"""The timeline of decisions is asked for by person, route and outcome, in the order of time."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('authorize', '0002_person_index'),
    ]

    operations = [
        migrations.AlterField(
            model_name='loggeddecision',
            name='person',
            field=models.CharField(blank=True, max_length=255, verbose_name='shown as'),
        ),
        migrations.AddIndex(
            model_name='loggeddecision',
            index=models.Index(fields=['person', 'at'], name='decision_by_person'),
        ),
        migrations.AddIndex(
            model_name='loggeddecision',
            index=models.Index(fields=['person_id', 'at'], name='decision_by_person_id'),
        ),
        migrations.AddIndex(
            model_name='loggeddecision',
            index=models.Index(fields=['route_id', 'at'], name='decision_by_route'),
        ),
        migrations.AddIndex(
            model_name='loggeddecision',
            index=models.Index(fields=['outcome', 'at'], name='decision_by_outcome'),
        ),
    ]
