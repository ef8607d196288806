"""Models: local weights run by an engine, HTTP servers, and a fake, all behind one Protocol (`models.model`)."""
