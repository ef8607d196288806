"""Which answer do people prefer? Votes between two models' answers, read, checked, and made into ratings."""
