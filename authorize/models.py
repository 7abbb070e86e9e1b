"""LoggedDecision: a recorded decision, kept for a while for administrators.  No query strings, no tokens, no secrets."""

from django.db import models

from databroker.models import LONGEST_ID


class LoggedDecision(models.Model):
    """Recorded decision.  `seconds` is how long it took; `facts` is JSON: what was compared, the trace, and the age of the data."""

    request_id = models.CharField("request id", max_length=32, db_index=True)
    at = models.DateTimeField("time", db_index=True)
    person_id = models.CharField("person", max_length=LONGEST_ID, blank=True)
    person = models.CharField("shown as", max_length=255, blank=True)
    method = models.CharField(max_length=32, blank=True)
    url = models.TextField("URL, without its query")
    client_address = models.CharField("client address", max_length=64, blank=True)
    route_id = models.CharField(max_length=16, blank=True)
    route = models.CharField(max_length=255, blank=True)
    outcome = models.CharField(max_length=24)
    reason = models.CharField(max_length=255, blank=True)
    shadow_outcome = models.CharField("in shadow", max_length=24, blank=True)
    seconds = models.FloatField()
    data_version = models.BigIntegerField("data version", null=True)
    configuration = models.CharField(max_length=16, blank=True)
    facts = models.TextField()

    class Meta:
        verbose_name = "decision"
        verbose_name_plural = "decision log"
        # What the timeline is asked for, in its order; `at` has an index of its own, by which old ones are cleared away.
        indexes = [
            models.Index(fields=["person", "at"], name="decision_by_person"),
            models.Index(fields=["person_id", "at"], name="decision_by_person_id"),
            models.Index(fields=["route_id", "at"], name="decision_by_route"),
            models.Index(fields=["outcome", "at"], name="decision_by_outcome"),
        ]

    def __str__(self) -> str:
        return f"{self.outcome}: {self.person or 'nobody'} at {self.url}"
