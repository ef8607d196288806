"""Human studies: a file describes comparisons and raters; raters are invited, compare blind, and can be erased."""
