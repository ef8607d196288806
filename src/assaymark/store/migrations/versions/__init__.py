"""One file per revision, numbered; never changed once released."""
