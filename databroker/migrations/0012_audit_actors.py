"""The audit log has the kind and the id of the one who acts in columns of their own."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('databroker', '0011_untold_addresses'),
    ]

    operations = [
        migrations.AddField(
            model_name='auditentry',
            name='kind',
            field=models.CharField(blank=True, db_default='', default='', max_length=32),
        ),
        migrations.AlterField(
            model_name='auditentry',
            name='account',
            field=models.CharField(blank=True, max_length=320, verbose_name='id'),
        ),
    ]
