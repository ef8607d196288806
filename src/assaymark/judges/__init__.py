"""Judges: a model that scores the stored answers of other models, alone, in pairs or as a panel.

A judging is a second pass over stored runs and is stored as a run of its own: its plan is the judge, its prompt and the
judged answers. So the same command continues it after a kill, and nothing is requested twice.
"""
