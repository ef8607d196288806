"""Human studies."""
