"""OAuth client that made a decided request."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('authorize', '0005_release_0_2'),
    ]

    operations = [
        migrations.AddField(
            model_name='loggeddecision',
            name='client_id',
            field=models.CharField(blank=True, default='', max_length=512, verbose_name='OAuth client'),
        ),
    ]
