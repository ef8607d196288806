"""Who answers: tests of `evalstone.models`."""
