"""What requests to a paid model cost: a dated table of prices, a forecast, and a limit that is never passed."""
