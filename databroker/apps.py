"""Django app of the data broker: its models are the relational view that the admin reads."""

from django.apps import AppConfig


class DataBrokerConfig(AppConfig):
    name = "databroker"
    verbose_name = "Data broker"
