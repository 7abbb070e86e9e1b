"""Django app of the data broker; its models are the tables of the admin and of the store `database`."""

from django.apps import AppConfig


class DataBrokerConfig(AppConfig):
    name = "databroker"
    verbose_name = "Data broker"
