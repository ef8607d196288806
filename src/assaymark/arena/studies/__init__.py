"""Human studies: a file says what is compared and by whom; raters are invited, compare blind, and can be erased."""
