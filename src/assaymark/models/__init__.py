"""Who answers: local weights through the engine, an HTTP server, a fake; all behind one Protocol (`models.model`)."""
