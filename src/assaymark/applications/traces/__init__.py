"""Traces: the steps of an application, received as OpenTelemetry's spans, stored and shown."""
