"""Instructions whose following can be checked by a program (IFEval): no judge, only text."""
