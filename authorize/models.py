"""Table of logged decisions for administrators.  It contains no query strings, tokens or secrets."""

from django.db import models

from databroker.models import MAX_ID_LENGTH


class LoggedDecision(models.Model):
    """Logged decision.  `snapshot` is JSON: the compared inputs, the trace, and the age of the data."""

    request_id = models.CharField("request id", max_length=32, db_index=True)
    decided_at = models.DateTimeField("time", db_index=True)
    user_id = models.CharField("user id", max_length=MAX_ID_LENGTH, blank=True)
    display_name = models.CharField("user", max_length=255, blank=True)
    method = models.CharField(max_length=32, blank=True)
    url = models.TextField("URL, without its query")
    client_address = models.CharField("client address", max_length=64, blank=True)
    client_id = models.CharField("OAuth client", max_length=512, blank=True, default="")
    mcp_method = models.CharField("MCP method", max_length=128, blank=True, default="")
    mcp_name = models.CharField("MCP tool, prompt or resource", max_length=255, blank=True, default="")
    route_id = models.CharField(max_length=16, blank=True)
    route_name = models.CharField(max_length=255, blank=True)
    outcome = models.CharField(max_length=24)
    reason = models.CharField(max_length=255, blank=True)
    shadow_outcome = models.CharField("shadow outcome", max_length=24, blank=True)
    duration_seconds = models.FloatField()
    data_version = models.BigIntegerField("data version", null=True)
    configuration = models.CharField(max_length=16, blank=True)
    snapshot = models.TextField()

    class Meta:
        verbose_name = "decision"
        verbose_name_plural = "decision log"
        # Indexes for the timeline, in its order.  `decided_at` has its own index, which pruning uses.
        indexes = [
            models.Index(fields=["display_name", "decided_at"], name="decision_by_name"),
            models.Index(fields=["user_id", "decided_at"], name="decision_by_user"),
            models.Index(fields=["route_id", "decided_at"], name="decision_by_route"),
            models.Index(fields=["outcome", "decided_at"], name="decision_by_outcome"),
        ]

    def __str__(self) -> str:
        return f"{self.outcome}: {self.display_name or 'nobody'} at {self.url}"
