"""Verifiable instructions (IFEval): whether an answer follows them is checked by a program, without a judge."""
