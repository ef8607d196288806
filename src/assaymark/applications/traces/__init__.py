"""Traces: what an application did, step by step, received as OpenTelemetry's spans, read and shown."""
